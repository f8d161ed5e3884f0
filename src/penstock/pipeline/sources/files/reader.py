"""The file source at run time: Spark's own file source, its rows checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.pipeline.rows.bad_rows import LETTER_KEY, LETTER_VALUE, POSITION, ROW, quoted, with_reason
from penstock.pipeline.rows.formats import CORRUPT, PARSED_FORMATS, evaluated_once, reader_options, with_corrupt
from penstock.pipeline.sources.files.declaration import FileSource
from penstock.pipeline.sources.parsed_source import ParsedSourceReader, option_text
from penstock.pipeline.sources.source_reader import SourceRead

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_FILE_FORMATS: Final = {"binary": "binaryFile"}


class FileSourceReader(ParsedSourceReader):
    def __init__(self, source: FileSource) -> None:
        super().__init__(source, source.format)
        self._source = source

    def tagged_rows(self, read: SourceRead, schema: StructType | None) -> tuple[DataFrame, list[str]]:
        from pyspark.sql import functions as f

        source = self._source
        reader: Any = read.spark.read if source.static else read.spark.readStream
        reader = reader.format(_FILE_FORMATS.get(source.format, source.format))
        options = {option: option_text(value) for option, value in (source.format_options | source.options).items()}
        if source.format in PARSED_FORMATS:
            options |= reader_options(options)
        if source.max_files_per_trigger is not None and not source.static:
            options["maxFilesPerTrigger"] = str(source.max_files_per_trigger)
        if schema is not None and source.format not in ("text", "binary"):
            reader = reader.schema(with_corrupt(schema) if source.format in PARSED_FORMATS else schema)
        raw: DataFrame = reader.options(**options).load(source.files)
        data = [column for column in raw.columns if column != CORRUPT]
        if not self.may_be_bad:
            return raw, data
        none = f.lit(None)
        position = f.struct(
            f.col("_metadata.file_path").alias("topic"),
            none.cast("int").alias("partition"),
            none.cast("bigint").alias("offset"),
        )
        # The struct keeps Spark from reading nothing but the corrupt column, which its readers refuse.
        everything = evaluated_once(f.struct(*map(quoted, raw.columns)))
        once = raw.select(everything.alias(ROW), position.alias(POSITION))
        fields = [f.col(ROW)[column].alias(column) for column in data]
        whole = f.to_json(f.struct(*(f.col(ROW)[column].alias(column) for column in data)))
        reason = None
        if source.format in PARSED_FORMATS:
            whole = f.coalesce(f.col(ROW)[CORRUPT], whole)
            reason = f.when(
                f.col(ROW)[CORRUPT].isNotNull(), f.lit(f"the line does not parse as {source.format} of the columns")
            )
        tagged = once.select(
            *fields,
            ROW,
            POSITION,
            none.cast("binary").alias(LETTER_KEY),
            whole.cast("binary").alias(LETTER_VALUE),
        )
        return with_reason(tagged, source.expect, parse_reason=reason), data

    def infer_columns(self, read: SourceRead) -> StructType:
        from pyspark.sql.types import StructType

        source = self._source
        reader = read.spark.read.format(source.format)
        if source.format in PARSED_FORMATS:
            reader = reader.options(**reader_options(source.format_options))
        if source.format == "csv":
            reader = reader.option("inferSchema", "true")
        found = reader.load(source.files).schema
        return StructType([field for field in found.fields if field.name != CORRUPT])

"""The file source at run time: Spark's own file source, its rows checked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.rows.bad_rows import LETTER_KEY, LETTER_VALUE, POSITION, ROW, quoted, with_reason
from penstock.pipeline.rows.formats import (
    CORRUPT,
    PARSED_FORMATS,
    evaluated_once,
    fields_of,
    reader_options,
    widened,
    with_corrupt,
)
from penstock.pipeline.rows.parse_reasons import not_utf8, replaced_characters
from penstock.pipeline.sources.files.declaration import FileSource
from penstock.pipeline.sources.parsed_source import ParsedSourceReader, option_text
from penstock.pipeline.sources.source_reader import SourceRead, SourceRows
from penstock.pipeline.spark.internals import HadoopDirectory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_FILES_PER_TRIGGER: Final = 1_000
_GLOB: Final = re.compile(r"[*?\[{]")
_FILE_FORMATS: Final = {"binary": "binaryFile"}


class FileSourceReader(ParsedSourceReader):
    def __init__(self, source: FileSource) -> None:
        super().__init__(source, source.format)
        self._source = source

    def rows(self, read: SourceRead) -> SourceRows:
        """Spark waits for a directory that a stream's glob names, and reports any other one as a mistake in SQL."""
        found = HadoopDirectory(read.spark, _fixed_part(self._source.files))
        if not found.exists("."):
            raise PipelineFailed(
                f"{self._source.files} does not exist; create it, or correct the path", ExitCode.NOT_FOUND
            )
        return super().rows(read)

    def tagged_rows(self, read: SourceRead, schema: StructType | None) -> tuple[DataFrame, list[str]]:
        from pyspark.sql import functions as f

        source = self._source
        is_table = source.static or read.preview_rows is not None
        reader: Any = read.spark.read if is_table else read.spark.readStream
        reader = reader.format(_FILE_FORMATS.get(source.format, source.format))
        options = {option: option_text(value) for option, value in (source.format_options | source.options).items()}
        if source.format in PARSED_FORMATS:
            options |= reader_options(options)
        if not is_table and not any(option.lower() == "maxbytespertrigger" for option in source.options):
            options["maxFilesPerTrigger"] = str(source.max_files_per_trigger or _FILES_PER_TRIGGER)
        if schema is not None and source.format not in ("text", "binary"):
            is_parsed = source.format in PARSED_FORMATS
            reader = reader.schema(with_corrupt(widened(schema, source.format)) if is_parsed else schema)
        raw: DataFrame = reader.options(**options).load(source.files)
        data = [column for column in raw.columns if column != CORRUPT]
        preview_rows = None if source.static else read.preview_rows
        if not self.may_be_bad(read):
            return raw if preview_rows is None else raw.limit(preview_rows), data
        none = f.lit(None)
        position = f.struct(
            f.col("_metadata.file_path").alias("topic"),
            none.cast("int").alias("partition"),
            none.cast("bigint").alias("offset"),
        )
        # The struct keeps Spark from reading nothing but the corrupt column, which its readers refuse.
        everything = evaluated_once(f.struct(*map(quoted, raw.columns)))
        once = raw.select(everything.alias(ROW), position.alias(POSITION))
        if preview_rows is not None:
            once = once.limit(preview_rows)
        row = f.col(ROW)
        made = {column: row[column] for column in data} | (fields_of(row, schema) if schema is not None else {})
        fields = [column.alias(name) for name, column in made.items()]
        whole = f.to_json(f.struct(*fields))
        reason = None
        if source.format == "text":
            whole, reason = row["value"], not_utf8(row["value"], "the line")
        elif source.format in PARSED_FORMATS:
            assert schema is not None  # a format that is parsed has columns, declared or inferred
            whole = f.coalesce(row[CORRUPT], whole)
            parsing = self.parsed_columns(schema, "the line")
            reason = f.coalesce(
                f.when(
                    row[CORRUPT].isNotNull(),
                    f.coalesce(not_utf8(row[CORRUPT], "the line"), parsing.reason(row[CORRUPT], row)),
                ),
                parsing.changed(row),
                replaced_characters(row, raw.schema, "the line") if source.format == "csv" else f.lit(None),
            )
        tagged = once.select(
            *fields,
            ROW,
            POSITION,
            none.cast("binary").alias(LETTER_KEY),
            whole.cast("binary").alias(LETTER_VALUE),
        )
        return with_reason(tagged, source.expect, reason, read.guard), data

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


def _fixed_part(path: str) -> str:
    """Of a path with a glob, the directory in which Spark begins to look."""
    parts = path.split("/")
    fixed = next((number for number, part in enumerate(parts) if _GLOB.search(part)), len(parts))
    return "/".join(parts[:fixed]) or "/"

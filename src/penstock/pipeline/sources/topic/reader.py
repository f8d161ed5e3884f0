"""The topic source at run time: records through the data source "penstock", parsed and checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.rows.bad_rows import LETTER_KEY, LETTER_VALUE, POSITION, REASON, ROW, TAGS, quoted, with_reason
from penstock.pipeline.rows.formats import CORRUPT, PARSED_FORMATS, evaluated_once, infer_schema, parsed
from penstock.pipeline.sources.parsed_source import ParsedSourceReader, option_text
from penstock.pipeline.sources.source_reader import SourceRead
from penstock.pipeline.sources.topic.declaration import RECORD_FIELD_TYPES, TOMBSTONE, TopicSource

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

SAMPLE_ROWS: Final = 1000


class TopicSourceReader(ParsedSourceReader):
    def __init__(self, source: TopicSource) -> None:
        super().__init__(source, source.format)
        self._source = source

    def tagged_rows(self, read: SourceRead, schema: StructType | None) -> tuple[DataFrame, list[str]]:
        from pyspark.sql import functions as f

        source, on_bad_row = self._source, read.on_bad_row
        checked = self.may_be_bad
        sole_topic = source.topic[0] if source.topic is not None and len(source.topic) == 1 else None
        needed: dict[str, None] = {"value": None, **dict.fromkeys(source.include)}
        if source.format == "binary" or (checked and on_bad_row == "dead_letters"):
            needed["key"] = None
        if checked and on_bad_row != "drop":
            needed |= {"partition": None, "offset": None} | ({} if sole_topic else {"topic": None})
        options = _topic_options(source, read.kafka)
        options |= {"columns": ",".join(needed), "startingOffsets": _starting(source)}
        if source.max_offsets_per_trigger is not None:
            options["maxOffsetsPerTrigger"] = str(source.max_offsets_per_trigger)
        raw = read.spark.readStream.format("penstock").options(**options).load()

        included = {f"_{field}": f.col(field).cast(RECORD_FIELD_TYPES[field]) for field in source.include}
        if source.tombstones == "keep":
            included[TOMBSTONE] = f.col("value").isNull()
        columns = _topic_columns(source, schema)
        data = [*columns, *included]
        kept = [column.alias(alias) for alias, column in included.items()]
        if not checked:
            return raw.select(*(column.alias(alias) for alias, column in columns.items()), *kept), data
        if on_bad_row != "drop":
            topic = f.lit(sole_topic) if sole_topic else f.col("topic")
            kept.append(f.struct(topic.alias("topic"), "partition", "offset").alias(POSITION))
        if on_bad_row == "dead_letters":
            kept += [f.col("key").alias(LETTER_KEY), f.col("value").alias(LETTER_VALUE)]
        if source.format not in PARSED_FORMATS:
            tagged = raw.select(*(column.alias(alias) for alias, column in columns.items()), *kept)
            return self._judged(with_reason(tagged, source.expect, parse_reason=None)), data
        assert schema is not None  # a format that is parsed has columns, declared or inferred
        row = parsed(f.col("value").cast("string"), source.format, schema, source.format_options)
        once = raw.select(evaluated_once(row).alias(ROW), f.col("value").isNull().alias("__no_value"), *kept)
        fields = [f.col(ROW)[column].alias(column) for column in columns]
        others = [*included, *(name for name in TAGS if name in once.columns)]
        tagged = once.select(*fields, ROW, "__no_value", *map(quoted, others))
        reason = f.when(f.col("__no_value"), f.lit("the value is null")).when(
            f.col(ROW).isNull() | f.col(ROW)[CORRUPT].isNotNull(),
            f.lit(f"the value does not parse as {source.format} of the declared columns"),
        )
        return self._judged(with_reason(tagged, source.expect, parse_reason=reason)), data

    def _judged(self, tagged: DataFrame) -> DataFrame:
        """A tombstone that is kept has nothing to parse, and no values to expect anything of."""
        from pyspark.sql import functions as f

        if self._source.tombstones != "keep":
            return tagged
        return tagged.withColumn(REASON, f.when(~f.col(TOMBSTONE), f.col(REASON)))

    def infer_columns(self, read: SourceRead) -> StructType:
        options = {
            option: value
            for option, value in _topic_options(self._source, read.kafka).items()
            if option.lower().startswith(("kafka.", "subscribe"))
        }
        rows = read.spark.read.format("penstock").options(**options, columns="value").load()
        values = rows.where("value IS NOT NULL").selectExpr("CAST(value AS STRING) AS value")
        sample = values.limit(SAMPLE_ROWS).collect()
        if not sample:
            raise PipelineFailed(
                f"the columns of {read.name} cannot be inferred: its topics hold no record yet; declare its schema",
                ExitCode.INVALID_PIPELINE,
            )
        return infer_schema(
            read.spark, [row["value"] for row in sample], self._source.format, self._source.format_options
        )


def _topic_options(source: TopicSource, kafka: Mapping[str, str]) -> dict[str, str]:
    """The options of format("penstock"), for a query or a sample."""
    options = {f"kafka.{name}": value for name, value in kafka.items()}
    options |= {option: option_text(value) for option, value in source.options.items()}
    if source.topic_pattern is not None:
        options["subscribePattern"] = source.topic_pattern
    else:
        options["subscribe"] = ",".join(source.topic or ())
    return options


def _topic_columns(source: TopicSource, schema: StructType | None) -> dict[str, Column]:
    from pyspark.sql import functions as f

    if source.format == "text":
        return {"value": f.col("value").cast("string")}
    if source.format == "binary":
        return {"key": f.col("key"), "value": f.col("value")}
    assert schema is not None  # a format that is parsed has columns, declared or inferred
    return dict.fromkeys(schema.names, f.lit(None))


def _starting(source: TopicSource) -> str:
    start = source.starting_offsets
    return start if isinstance(start, str) else json.dumps(start)

"""The topic source at run time: records through the data source "penstock", parsed and checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.rows.bad_rows import LETTER_KEY, LETTER_VALUE, POSITION, ROW, TAGS, quoted, with_reason
from penstock.pipeline.rows.formats import evaluated_once, fields_of, infer_schema, parsed
from penstock.pipeline.rows.parse_reasons import changed_text, corrupt, not_utf8
from penstock.pipeline.sources.parsed_source import ParsedSourceReader, option_text
from penstock.pipeline.sources.source_reader import SourceRead
from penstock.pipeline.sources.topic.declaration import RECORD_FIELD_TYPES, TOMBSTONE, TopicSource

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

SAMPLE_ROWS: Final = 1000
_TARGET_BATCH_MS: Final = 10_000
# A query that rests between batches looks slow to its source.
_TARGET_INTERVALS: Final = 4
_BATCH_SIZE_OPTIONS: Final = ("minoffsetspertrigger", "targetbatchms")
_TEXT: Final = "__text"
_DAMAGE: Final = "__damage"


class TopicSourceReader(ParsedSourceReader):
    def __init__(self, source: TopicSource) -> None:
        super().__init__(source, source.format)
        self._source = source

    def may_be_bad(self, read: SourceRead) -> bool:
        """Keys and names of headers are bytes that have to be UTF-8 where they become text."""
        return super().may_be_bad(read) or not {"key", "headers"}.isdisjoint(self._source.include)

    def tagged_rows(self, read: SourceRead, schema: StructType | None) -> tuple[DataFrame, list[str]]:
        from pyspark.sql import functions as f

        source, on_bad_row = self._source, read.on_bad_row
        checked = self.may_be_bad(read)
        sole_topic = source.topic[0] if source.topic is not None and len(source.topic) == 1 else None
        needed: dict[str, None] = {"value": None, **dict.fromkeys(source.include)}
        if source.format == "binary" or (checked and on_bad_row == "dead_letters"):
            needed["key"] = None
        if checked and on_bad_row != "drop":
            needed |= {"partition": None, "offset": None} | ({} if sole_topic else {"topic": None})
        raw = self._records(read, ",".join(needed))

        included = {f"_{field}": f.col(field).cast(RECORD_FIELD_TYPES[field]) for field in source.include}
        keeps_tombstones = source.tombstones == "keep"
        if keeps_tombstones:
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
        # A tombstone that is kept has nothing to parse, and no values to expect anything of.
        exempt = f.col(TOMBSTONE) if keeps_tombstones else None
        if schema is None:
            made = (column.alias(alias) for alias, column in columns.items())
            tagged = raw.select(*made, *kept, self._damage().alias(_DAMAGE))
            return with_reason(tagged, source.expect, f.col(_DAMAGE), read.guard, exempt), data
        text = f.col("value").cast("string")
        row = evaluated_once(parsed(text, source.format, schema, source.format_options))
        once = raw.select(row.alias(ROW), text.alias(_TEXT), self._damage().alias(_DAMAGE), *kept)
        fields = [column.alias(name) for name, column in fields_of(f.col(ROW), schema).items()]
        others = [*included, *(name for name in TAGS if name in once.columns)]
        tagged = once.select(*fields, ROW, _TEXT, _DAMAGE, *map(quoted, others))
        parsing = self.parsed_columns(schema, "the value")
        no_value = f.lit(None if keeps_tombstones else "the value is null").cast("string")
        not_parsed = f.when(corrupt(f.col(ROW)), parsing.reason(f.col(_TEXT), f.col(ROW)))
        reason = f.coalesce(
            f.col(_DAMAGE),
            f.when(f.col(_TEXT).isNull(), no_value).otherwise(
                f.coalesce(not_parsed, parsing.changed(f.col(ROW), f.col(_TEXT)))
            ),
        )
        return with_reason(tagged, source.expect, reason, read.guard, exempt), data

    def _records(self, read: SourceRead, columns: str) -> DataFrame:
        source = self._source
        options = _topic_options(source, read.kafka) | {"columns": columns}
        if read.preview_rows is not None:
            options["startingOffsets"] = "earliest" if isinstance(source.starting_offsets, str) else _starting(source)
            return read.spark.read.format("penstock").options(**options).load().limit(read.preview_rows)
        options["startingOffsets"] = _starting(source)
        if source.max_offsets_per_trigger is not None:
            options["maxOffsetsPerTrigger"] = str(source.max_offsets_per_trigger)
        elif not any(option.lower() in _BATCH_SIZE_OPTIONS for option in source.options):
            options["targetBatchMs"] = str(max(_TARGET_BATCH_MS, _TARGET_INTERVALS * read.interval_ms))
        return read.spark.readStream.format("penstock").options(**options).load()

    def _damage(self) -> Column:
        """Why the bytes of a record cannot become the texts that they should; NULL if they can."""
        from pyspark.sql import functions as f

        source = self._source
        found = [f.lit(None).cast("string")]
        text = f.col("value").cast("string")
        if source.format != "binary":
            found.append(changed_text(text, source.format, "the value"))
        if "key" in source.include:
            found.append(not_utf8(f.col("key").cast("string"), "the key"))
        if "headers" in source.include:
            is_damaged = f.exists(f.col("headers"), lambda header: ~f.is_valid_utf8(header["key"]))
            found.append(f.when(is_damaged, f.lit("the name of a header is not valid UTF-8")))
        return evaluated_once(f.coalesce(*found))

    def infer_columns(self, read: SourceRead) -> StructType:
        options = {
            option: value
            for option, value in _topic_options(self._source, read.kafka).items()
            if option.lower().startswith(("kafka.", "subscribe"))
        }
        rows = read.spark.read.format("penstock").options(**options, columns="value").load()
        values = rows.selectExpr("CAST(value AS STRING) AS value").where("is_valid_utf8(value)")
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

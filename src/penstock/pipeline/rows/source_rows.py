"""The rows of a source: read, parsed, checked, and split into good ones and dead letters.

Owns the way from a declared source to the DataFrame that SQL sees. It must never know sinks. Which columns a source has
without declaring them is in `source_schema.py`.

What `on_error` means here:
- stop: a filter that raises. It does not commute with the author's own filters, so no bad row slips past it.
- drop: a filter, and a metric that counts what it drops.
- dead letters: a filter, and a second DataFrame of the same source with the bad rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from penstock.core.error_table import BAD_ROW
from penstock.core.exit_codes import ExitCode
from penstock.pipeline.declaration.source_spec import (
    RECORD_FIELD_TYPES,
    AnySource,
    FileSource,
    TableSource,
    TopicSource,
)
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.rows.dead_letters import DEAD_LETTER, DEAD_LETTER_TYPE
from penstock.pipeline.rows.event_time import with_event_time
from penstock.pipeline.rows.formats import CORRUPT, PARSED_FORMATS, evaluated_once, parsed, reader_options, with_corrupt

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

OnBadRow = Literal["stop", "drop", "dead_letters"]


DROPPED_METRIC_PREFIX: Final = "penstock_dropped_"
_ROW: Final = "__row"
_REASON: Final = "__reason"
_STAGE: Final = "__stage"
_POSITION: Final = "__position"
_LETTER_KEY: Final = "__key"
_LETTER_VALUE: Final = "__value"
_OWN: Final = (_REASON, _STAGE, _POSITION, _LETTER_KEY, _LETTER_VALUE)
_FILE_FORMATS: Final = {"binary": "binaryFile"}


@dataclass(frozen=True, slots=True)
class SourceRows:
    good: DataFrame
    bad: DataFrame | None
    """One column, DEAD_LETTER; None where no row can be bad, or where bad ones do not go to a topic."""
    marked: DataFrame | None = None
    """All rows, with DEAD_LETTER beside the columns; None as above, and where rows are more than parsed."""


def source_rows(
    spark: SparkSession,
    name: str,
    source: AnySource,
    schema: StructType | None,
    on_bad_row: OnBadRow,
    kafka: Mapping[str, str],
) -> SourceRows:
    """`schema` is what the format yields, declared or inferred; `kafka` are the settings of the source's brokers."""
    if isinstance(source, TableSource):
        from penstock.pipeline.rows.table_rows import table_rows

        return SourceRows(table_rows(spark, source), None)
    if isinstance(source, TopicSource):
        tagged, data = _topic_rows(spark, source, schema, on_bad_row, kafka)
    else:
        tagged, data = _file_rows(spark, source, schema)
    if not _may_be_bad(source):
        return SourceRows(with_event_time(tagged.select(*map(_quoted, data)), source), None)
    if source.static and on_bad_row == "dead_letters":
        on_bad_row = "stop"  # they would be published again with every batch that the table is joined with
    columns = list(map(_quoted, data))
    if on_bad_row != "dead_letters":
        return SourceRows(with_event_time(_without_bad(tagged, name, on_bad_row).select(*columns), source), None)
    good = with_event_time(tagged.where(f"{_REASON} IS NULL").select(*columns), source)
    bad = tagged.where(f"{_REASON} IS NOT NULL").select(_letter().alias(DEAD_LETTER))
    marked = None if source.dedupe or source.watermark else tagged.select(*columns, _letter().alias(DEAD_LETTER))
    return SourceRows(good, bad, marked)


def topic_options(source: TopicSource, kafka: Mapping[str, str]) -> dict[str, str]:
    """The options of format("penstock"), for a query or a sample."""
    options = {f"kafka.{name}": value for name, value in kafka.items()}
    options |= {option: _option_text(value) for option, value in source.options.items()}
    if source.topic_pattern is not None:
        options["subscribePattern"] = source.topic_pattern
    else:
        options["subscribe"] = ",".join(source.topic or ())
    return options


def _topic_rows(
    spark: SparkSession,
    source: TopicSource,
    schema: StructType | None,
    on_bad_row: OnBadRow,
    kafka: Mapping[str, str],
) -> tuple[DataFrame, list[str]]:
    from pyspark.sql import functions as f

    checked = _may_be_bad(source)
    sole_topic = source.topic[0] if source.topic is not None and len(source.topic) == 1 else None
    needed: dict[str, None] = {"value": None, **dict.fromkeys(source.include)}
    if source.format == "binary" or (checked and on_bad_row == "dead_letters"):
        needed["key"] = None
    if checked and on_bad_row != "drop":
        needed |= {"partition": None, "offset": None} | ({} if sole_topic else {"topic": None})
    options = topic_options(source, kafka) | {"columns": ",".join(needed), "startingOffsets": _starting(source)}
    if source.max_offsets_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(source.max_offsets_per_trigger)
    raw = spark.readStream.format("penstock").options(**options).load()

    included = {f"_{field}": f.col(field).cast(RECORD_FIELD_TYPES[field]) for field in source.include}
    columns = _topic_columns(source, schema)
    data = [*columns, *included]
    kept = [column.alias(alias) for alias, column in included.items()]
    if not checked:
        return raw.select(*(column.alias(alias) for alias, column in columns.items()), *kept), data
    if on_bad_row != "drop":
        topic = f.lit(sole_topic) if sole_topic else f.col("topic")
        kept.append(f.struct(topic.alias("topic"), "partition", "offset").alias(_POSITION))
    if on_bad_row == "dead_letters":
        kept += [f.col("key").alias(_LETTER_KEY), f.col("value").alias(_LETTER_VALUE)]
    if source.format not in PARSED_FORMATS:
        tagged = raw.select(*(column.alias(alias) for alias, column in columns.items()), *kept)
        return _with_reason(tagged, source, parse_reason=None), data
    assert schema is not None  # a format that is parsed has columns, declared or inferred
    row = parsed(f.col("value").cast("string"), source.format, schema, source.format_options)
    once = raw.select(evaluated_once(row).alias(_ROW), f.col("value").isNull().alias("__no_value"), *kept)
    fields = [f.col(_ROW)[column].alias(column) for column in columns]
    others = [*included, *(name for name in _OWN if name in once.columns)]
    tagged = once.select(*fields, _ROW, "__no_value", *map(_quoted, others))
    reason = f.when(f.col("__no_value"), f.lit("the value is null")).when(
        f.col(_ROW).isNull() | f.col(_ROW)[CORRUPT].isNotNull(),
        f.lit(f"the value does not parse as {source.format} of the declared columns"),
    )
    return _with_reason(tagged, source, parse_reason=reason), data


def _topic_columns(source: TopicSource, schema: StructType | None) -> dict[str, Column]:
    from pyspark.sql import functions as f

    if source.format == "text":
        return {"value": f.col("value").cast("string")}
    if source.format == "binary":
        return {"key": f.col("key"), "value": f.col("value")}
    assert schema is not None  # a format that is parsed has columns, declared or inferred
    return dict.fromkeys(schema.names, f.lit(None))


def _file_rows(spark: SparkSession, source: FileSource, schema: StructType | None) -> tuple[DataFrame, list[str]]:
    from pyspark.sql import functions as f

    reader: Any = spark.read if source.static else spark.readStream
    reader = reader.format(_FILE_FORMATS.get(source.format, source.format))
    options = {option: _option_text(value) for option, value in (source.format_options | source.options).items()}
    if source.format in PARSED_FORMATS:
        options |= reader_options(options)
    if source.max_files_per_trigger is not None and not source.static:
        options["maxFilesPerTrigger"] = str(source.max_files_per_trigger)
    if schema is not None and source.format not in ("text", "binary"):
        reader = reader.schema(with_corrupt(schema) if source.format in PARSED_FORMATS else schema)
    raw: DataFrame = reader.options(**options).load(source.files)
    data = [column for column in raw.columns if column != CORRUPT]
    if not _may_be_bad(source):
        return raw, data
    none = f.lit(None)
    position = f.struct(
        f.col("_metadata.file_path").alias("topic"),
        none.cast("int").alias("partition"),
        none.cast("bigint").alias("offset"),
    )
    # The struct keeps Spark from reading nothing but the corrupt column, which its readers refuse.
    everything = evaluated_once(f.struct(*map(_quoted, raw.columns)))
    once = raw.select(everything.alias(_ROW), position.alias(_POSITION))
    fields = [f.col(_ROW)[column].alias(column) for column in data]
    whole = f.to_json(f.struct(*(f.col(_ROW)[column].alias(column) for column in data)))
    reason = None
    if source.format in PARSED_FORMATS:
        whole = f.coalesce(f.col(_ROW)[CORRUPT], whole)
        reason = f.when(
            f.col(_ROW)[CORRUPT].isNotNull(), f.lit(f"the line does not parse as {source.format} of the columns")
        )
    tagged = once.select(
        *fields,
        _ROW,
        _POSITION,
        none.cast("binary").alias(_LETTER_KEY),
        whole.cast("binary").alias(_LETTER_VALUE),
    )
    return _with_reason(tagged, source, parse_reason=reason), data


def _with_reason(tagged: DataFrame, source: TopicSource | FileSource, parse_reason: Column | None) -> DataFrame:
    """Adds why a row is bad, NULL for a good one, and the stage that found it so. A NULL condition is broken."""
    from pyspark.sql import functions as f

    broken: Column | None = None
    for rule, condition in source.expect.items():
        _require_certainty(tagged, rule, condition)
        unmet = ~f.coalesce(f.expr(condition), f.lit(False))
        reason = f.lit(f"breaks expect '{rule}': {condition}")
        broken = f.when(unmet, reason) if broken is None else broken.when(unmet, reason)
    nothing = f.lit(None).cast("string")
    if parse_reason is None:
        parse_reason = nothing
    parse_failure = tagged.withColumn("__parse", parse_reason)
    expectation = nothing if broken is None else f.when(f.col("__parse").isNull(), broken)
    return parse_failure.withColumn(_REASON, f.coalesce("__parse", expectation)).withColumn(
        _STAGE, f.when(f.col("__parse").isNotNull(), f.lit("parse")).otherwise(f.lit("expect"))
    )


def _require_certainty(tagged: DataFrame, rule: str, condition: str) -> None:
    """Good rows and dead letters may be made by two readings, which have to agree on every row."""
    projection: Any = tagged.selectExpr(condition)._jdf.queryExecution().analyzed()
    if not projection.projectList().apply(0).deterministic():
        raise PipelineFailed(
            f"expect '{rule}': a condition must say the same of a row whenever it is asked; take out what is random",
            ExitCode.INVALID_SQL,
        )


def _without_bad(tagged: DataFrame, name: str, on_bad_row: OnBadRow) -> DataFrame:
    from pyspark.sql import functions as f

    is_good = f.col(_REASON).isNull()
    if on_bad_row == "drop":
        return tagged.observe(DROPPED_METRIC_PREFIX + name, f.count_if(~is_good).alias("rows")).where(is_good)
    # The marker of an error, as `core.errors.marker` writes it.
    position = [f.col(f"{_POSITION}.{name}").alias(name) for name in ("topic", "partition", "offset")]
    fields = f.struct(f.col(_REASON).alias("message"), f.col(_STAGE).alias("stage"), *position)
    complaint = f.raise_error(f.concat(f.lit(f"[{BAD_ROW}] "), f.to_json(fields))).cast("boolean")
    # spark_partition_id makes the condition one that Spark does not combine with those of the author.
    return tagged.where((f.spark_partition_id() >= 0) & f.when(is_good, True).otherwise(complaint))


def _letter() -> Column:
    """NULL for a good row."""
    from pyspark.sql import functions as f

    letter = f.struct(
        f.col(_LETTER_KEY).alias("key"),
        f.col(_LETTER_VALUE).alias("value"),
        f.col(_REASON).alias("reason"),
        f.col(_STAGE).alias("stage"),
        f.col(f"{_POSITION}.topic").alias("topic"),
        f.col(f"{_POSITION}.partition").alias("partition"),
        f.col(f"{_POSITION}.offset").alias("offset"),
    )
    return f.when(f.col(_REASON).isNotNull(), letter.cast(DEAD_LETTER_TYPE))


def _may_be_bad(source: TopicSource | FileSource) -> bool:
    return source.format in PARSED_FORMATS or bool(source.expect)


def _starting(source: TopicSource) -> str:
    start = source.starting_offsets
    return start if isinstance(start, str) else json.dumps(start)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _option_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

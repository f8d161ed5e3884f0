"""Rows as records of a topic: key, value, headers and partition, out of the columns of a result.

Owns what the keys of a topic sink mean as Spark columns. How records are written is `topics/`'s matter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.pipeline.rows.dead_letters import DEAD_LETTER, record_columns
from penstock.pipeline.sinks.deletions import column_named
from penstock.pipeline.sinks.topic.declaration import TopicSink

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def topic_records(rows: DataFrame, sink: TopicSink, pipeline: str, dead_letter_topic: str | None) -> DataFrame:
    """The columns that the data source "penstock" writes; with dead letters among the rows, each names its topic."""
    from pyspark.sql import functions as f

    fields = _record_fields(rows, sink)
    if DEAD_LETTER not in rows.columns or dead_letter_topic is None:
        return rows.select(*(column.alias(name) for name, column in fields.items()))
    is_dead = f.col(DEAD_LETTER).isNotNull()
    dead = dict(zip(("topic", "key", "value", "headers"), record_columns(pipeline, dead_letter_topic), strict=True))
    # An expression over the columns of a dead letter would see NULLs, and may not like them.
    chosen = {"topic": f.when(is_dead, dead["topic"]).otherwise(f.lit(sink.topic))}
    for name in ("key", "value", "headers"):
        good = fields.get(name, f.lit(None))
        chosen[name] = f.when(is_dead, dead[name]).otherwise(good.cast("binary") if name != "headers" else good)
    if "partition" in fields:
        chosen["partition"] = f.when(~is_dead, fields["partition"])
    return rows.select(*(column.alias(name) for name, column in chosen.items()))


def _record_fields(rows: DataFrame, sink: TopicSink) -> dict[str, Column]:
    from pyspark.sql import functions as f

    flag = None if sink.delete_when is None else column_named(sink.delete_when, rows.columns)
    columns = [f.col("`" + name.replace("`", "``") + "`") for name in rows.columns if name not in (DEAD_LETTER, flag)]
    fields: dict[str, Column] = {}
    if sink.key is not None:
        keys = [f.expr(key) for key in sink.key]
        fields["key"] = keys[0].cast("string") if len(keys) == 1 else f.to_json(f.struct(*keys))
    if sink.format == "json":
        fields["value"] = f.to_json(f.struct(*columns), {"ignoreNullFields": "false"})
    elif sink.format == "csv":
        fields["value"] = f.to_csv(f.struct(*columns))
    else:
        value = f.expr(sink.value or "value")
        fields["value"] = value.cast("string") if sink.format == "text" else value.cast("binary")
    if sink.delete_when is not None:
        is_deleted = f.coalesce(f.expr(sink.delete_when).cast("boolean"), f.lit(False))
        fields["value"] = f.when(~is_deleted, fields["value"])
    if sink.headers:
        fields["headers"] = f.array(
            *(
                f.struct(f.lit(name).alias("key"), f.expr(value).cast("string").cast("binary").alias("value"))
                for name, value in sink.headers.items()
            )
        )
    if sink.partition is not None:
        fields["partition"] = f.expr(sink.partition).cast("int")
    return fields

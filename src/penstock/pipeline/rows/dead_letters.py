"""Rows that do not parse or break an expectation, on their way to the dead-letter topic.

Owns the column that carries them beside good rows, and the record that one becomes. How they are committed together
with the good rows is the sinks' matter.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from penstock.core import dead_letters as headers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

DEAD_LETTER: Final = "__dead_letter"
DEAD_LETTER_TYPE: Final = (
    "STRUCT<key: BINARY, value: BINARY, reason: STRING, stage: STRING, topic: STRING, partition: INT, offset: BIGINT>"
)
FIELDS_BY_HEADER: Final = {
    headers.REASON: "reason",
    headers.STAGE: "stage",
    headers.TOPIC: "topic",
    headers.PARTITION: "partition",
    headers.OFFSET: "offset",
}
METRIC: Final = "penstock_dead_letters"


def joined(good: DataFrame, bad: Sequence[DataFrame]) -> DataFrame:
    """The rows of `good`, whose DEAD_LETTER is NULL, and the dead letters of `bad`, whose other columns are NULL.

    It is a union, so a stateful `good` is finished before a dead letter joins it.
    """
    from pyspark.sql import functions as f

    marked = good.withColumn(DEAD_LETTER, f.lit(None).cast(DEAD_LETTER_TYPE))
    letters = letter_rows(bad)
    absent = [f.lit(None).cast(field.dataType).alias(field.name) for field in good.schema.fields]
    return marked.union(letters.select(*absent, DEAD_LETTER))


def letter_rows(bad: Sequence[DataFrame]) -> DataFrame:
    """The dead letters of several sources, counted: one column, DEAD_LETTER."""
    from pyspark.sql import functions as f

    letters = reduce(lambda left, right: left.unionByName(right), bad)
    return letters.observe(METRIC, f.count(f.lit(1)).alias("rows"))


def record_columns(pipeline: str, topic: str) -> list[Column]:
    """A dead letter as a record: topic, key, value and headers."""
    from pyspark.sql import functions as f

    def header(name: str, value: Column) -> Column:
        return f.struct(f.lit(name).alias("key"), value.cast("string").cast("binary").alias("value"))

    reported = [header(name, f.col(f"{DEAD_LETTER}.{field}")) for name, field in FIELDS_BY_HEADER.items()]
    reported.append(header(headers.PIPELINE, f.lit(pipeline)))
    return [
        f.lit(topic).alias("topic"),
        f.col(f"{DEAD_LETTER}.key").alias("key"),
        f.col(f"{DEAD_LETTER}.value").alias("value"),
        f.array(*reported).alias("headers"),
    ]

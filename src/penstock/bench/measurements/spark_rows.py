"""Rows per second of a streaming query over all records of a topic: to the noop sink, a topic, a table.

Ours writes exactly once. Spark's topic sink, and its JDBC writer in `foreachBatch`, write at least once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.bench.measurement import Workbench
from penstock.bench.metric import AT_LEAST_LEVEL, Metric, Readings, Target, Unit
from penstock.bench.peers import Contestant
from penstock.bench.sizes import Sizes
from penstock.bench.spark.rows_per_second import Flow, rows_per_second

_DISK_OVERHEAD = 1.25


@dataclass(frozen=True, slots=True)
class SparkRows:
    """At the end, `copies` of each row are on disk, each `row_overhead_bytes` larger than the row itself."""

    sizes: Sizes
    name: str
    title: str
    flows: Sequence[Flow]
    target: Target
    copies: int
    row_overhead_bytes: int = 0

    @property
    def metrics(self) -> Sequence[Metric]:
        return [
            Metric(self._key(flow.row_bytes), f"rows of {flow.label}", Unit.ROWS_PER_SECOND, self.target)
            for flow in self.flows
        ]

    @property
    def disk_bytes(self) -> int:
        one_copy = sum(
            (flow.row_bytes + self.row_overhead_bytes) * self.sizes.spark_row_count(flow.row_bytes)
            for flow in self.flows
        )
        return int(one_copy * self.copies * (1 + self.sizes.warm_up_share) * _DISK_OVERHEAD)

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        rates = rows_per_second(contestant, self.flows, self.sizes, workbench)
        return {self._key(row_bytes): rate for row_bytes, rate in rates.items()}

    def _key(self, row_bytes: int) -> str:
        return f"{self.name}.{row_bytes}"


def spark_read(sizes: Sizes) -> SparkRows:
    return SparkRows(
        sizes,
        "spark-read",
        "Spark, from a topic of four partitions to the noop sink",
        [Flow(size, into="noop") for size in _row_sizes(sizes)],
        Target(ratio_at_least=1.5),
        copies=1,
    )


def spark_copy(sizes: Sizes) -> SparkRows:
    return SparkRows(
        sizes,
        "spark-copy",
        "Spark, from a topic to a topic: ours exactly once, the other at least once",
        [Flow(size, into="topic", guarantee="exactly_once") for size in _row_sizes(sizes)],
        AT_LEAST_LEVEL,
        copies=2,
    )


def spark_table(sizes: Sizes) -> SparkRows:
    return SparkRows(
        sizes,
        "spark-table",
        "Spark, from a topic to a table of PostgreSQL: ours exactly once, the other at least once",
        [Flow(size, into="table", guarantee="exactly_once") for size in _row_sizes(sizes)],
        Target(ratio_at_least=2.0),
        copies=3,  # the topic, the table, its write-ahead log
        row_overhead_bytes=40,
    )


def _row_sizes(sizes: Sizes) -> tuple[int, int]:
    return sizes.small_record_bytes, sizes.large_record_bytes

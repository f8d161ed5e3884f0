"""Rows a second from a topic to a table of PostgreSQL: ours exactly once, by staging and a ledger, against Spark's JDBC
writer in `foreachBatch`, which writes at least once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.bench.measurement import Workbench
from penstock.bench.metric import Metric, Readings, Target, Unit
from penstock.bench.peers import Contestant
from penstock.bench.sizes import Sizes
from penstock.bench.spark_drain import Flow, rows_per_second

_TWICE = Target(ratio_at_least=2.0)
# The topic, the table, its write-ahead log, and the staging of a micro-batch. A row of a table has a head of its own.
_COPIES = 4
_ROW_OVERHEAD_BYTES = 40


@dataclass(frozen=True, slots=True)
class SparkTable:
    sizes: Sizes
    name: str = "spark-table"
    title: str = "Spark, from a topic to a table of PostgreSQL: ours exactly once, the other at least once"

    @property
    def metrics(self) -> Sequence[Metric]:
        return [
            Metric(_key(flow.row_bytes), f"rows of {flow.label}", Unit.ROWS_PER_SECOND, _TWICE) for flow in self._flows
        ]

    @property
    def disk_bytes(self) -> int:
        rows_bytes = sum(
            (flow.row_bytes + _ROW_OVERHEAD_BYTES) * self.sizes.spark_row_count(flow.row_bytes) for flow in self._flows
        )
        return int(rows_bytes * _COPIES * (1 + self.sizes.warm_up_share))

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        rates = rows_per_second(contestant, self._flows, self.sizes, workbench)
        return {_key(row_bytes): rate for row_bytes, rate in rates.items()}

    @property
    def _flows(self) -> list[Flow]:
        """The guarantee is ours to keep; Spark's JDBC writer is not asked."""
        return [
            Flow(size, into="table", guarantee="exactly_once")
            for size in (self.sizes.small_record_bytes, self.sizes.large_record_bytes)
        ]


def _key(row_bytes: int) -> str:
    return f"spark-table.{row_bytes}"

"""Rows a second from a topic to a topic: ours exactly once, one Kafka transaction for each micro-batch, against Spark's
own sink, which writes at least once and has nothing else to offer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.bench.measurement import Workbench
from penstock.bench.metric import AT_LEAST_LEVEL, Metric, Readings, Unit
from penstock.bench.peers import Contestant
from penstock.bench.sizes import Sizes
from penstock.bench.spark_drain import Flow, rows_per_second

_DISK_OVERHEAD = 1.25


@dataclass(frozen=True, slots=True)
class SparkCopy:
    sizes: Sizes
    name: str = "spark-copy"
    title: str = "Spark, from a topic to a topic: ours exactly once, the other at least once"

    @property
    def metrics(self) -> Sequence[Metric]:
        return [
            Metric(_key(flow.row_bytes), f"rows of {flow.label}", Unit.ROWS_PER_SECOND, AT_LEAST_LEVEL)
            for flow in self._flows
        ]

    @property
    def disk_bytes(self) -> int:
        filled = sum(flow.row_bytes * self.sizes.spark_row_count(flow.row_bytes) for flow in self._flows)
        return int(filled * 2 * (1 + self.sizes.warm_up_share) * _DISK_OVERHEAD)

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        rates = rows_per_second(contestant, self._flows, self.sizes, workbench)
        return {_key(row_bytes): rate for row_bytes, rate in rates.items()}

    @property
    def _flows(self) -> list[Flow]:
        """The guarantee is ours to keep; Spark's own sink is not asked."""
        return [
            Flow(size, into="topic", guarantee="exactly_once")
            for size in (self.sizes.small_record_bytes, self.sizes.large_record_bytes)
        ]


def _key(row_bytes: int) -> str:
    return f"spark-copy.{row_bytes}"

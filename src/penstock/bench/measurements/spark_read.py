"""Rows a second from a topic into Spark: a streaming query with all columns and Spark's noop sink."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.bench.measurement import Workbench
from penstock.bench.metric import Metric, Readings, Target, Unit
from penstock.bench.peers import Contestant
from penstock.bench.sizes import Sizes
from penstock.bench.spark_drain import Flow, rows_per_second

_WELL_ABOVE = Target(ratio_at_least=1.5)
_DISK_OVERHEAD = 1.25


@dataclass(frozen=True, slots=True)
class SparkRead:
    sizes: Sizes
    name: str = "spark-read"
    title: str = "Spark, from a topic of four partitions to nowhere"

    @property
    def metrics(self) -> Sequence[Metric]:
        return [
            Metric(_key(flow.row_bytes), f"rows of {flow.label}", Unit.ROWS_PER_SECOND, _WELL_ABOVE)
            for flow in self._flows
        ]

    @property
    def disk_bytes(self) -> int:
        filled = sum(flow.row_bytes * self.sizes.spark_row_count(flow.row_bytes) for flow in self._flows)
        return int(filled * (1 + self.sizes.warm_up_share) * _DISK_OVERHEAD)

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        rates = rows_per_second(contestant, self._flows, self.sizes, workbench)
        return {_key(row_bytes): rate for row_bytes, rate in rates.items()}

    @property
    def _flows(self) -> list[Flow]:
        return [Flow(size, into="nowhere") for size in (self.sizes.small_record_bytes, self.sizes.large_record_bytes)]


def _key(row_bytes: int) -> str:
    return f"spark-read.{row_bytes}"

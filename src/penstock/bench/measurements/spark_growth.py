"""The time of a micro-batch as the topic has more partitions, and as the batch has more rows.

Rows of 100 B go to Spark's noop sink, so that only the source grows. One series varies the partitions, the other the
rows. There is no target: the figures are for the plot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.bench.measurement import Workbench
from penstock.bench.metric import Metric, Readings, Unit
from penstock.bench.peers import Contestant
from penstock.bench.sizes import Sizes
from penstock.bench.spark.process import SparkProcess, driver_command
from penstock.bench.spark.rows_per_second import engine_of
from penstock.bench.spark.topics import fill
from penstock.bench.spark.workload import Mode, Query, QueryResult, Workload

_BATCHES = 5
_DISK_OVERHEAD = 1.25
# So that every partition has a record batch for each micro-batch, also with hundreds of partitions.
_ROWS_PER_PARTITION_AT_MOST = 655


@dataclass(frozen=True, slots=True)
class _Point:
    """One topic and the micro-batches that read it."""

    key: str
    title: str
    partitions: int
    rows_per_batch: int


@dataclass(frozen=True, slots=True)
class SparkGrowth:
    sizes: Sizes
    name: str = "spark-growth"
    title: str = "Spark, time of a micro-batch from a topic to the noop sink"

    @property
    def metrics(self) -> Sequence[Metric]:
        return [Metric(point.key, point.title, Unit.MILLISECONDS) for point in self._points]

    @property
    def disk_bytes(self) -> int:
        rows = sum(point.rows_per_batch for point in self._points) * (_BATCHES + 1)
        return int(rows * self.sizes.small_record_bytes * _DISK_OVERHEAD)

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        warm_up, *points = [self._points[0], *self._points]
        readings: dict[str, float] = {}
        with contestant.fresh(workbench.data_parent) as peer:
            queries: list[Query] = []
            for number, point in enumerate((warm_up, *points)):
                workbench.tell(f"filling a topic for {point.title}")
                topic = f"growth-{number}"
                rows = fill(
                    peer.bootstrap_servers,
                    topic,
                    partitions=point.partitions,
                    row_bytes=self.sizes.small_record_bytes,
                    rows=point.rows_per_batch * _BATCHES,
                    time_limit_s=self.sizes.time_limit_s,
                )
                queries.append(Query(topic, None, rows_per_batch=-(-rows // _BATCHES)))
            workload = Workload(engine_of(contestant), peer.bootstrap_servers, Mode.AVAILABLE_NOW, tuple(queries))
            with SparkProcess(driver_command(workload), workbench.data_parent) as spark:
                spark.next_line(self.sizes.time_limit_s)
                for point in points:
                    workbench.tell(point.title)
                    taken = QueryResult(**spark.next_line(self.sizes.time_limit_s))
                    readings[point.key] = taken.seconds / taken.batches * 1000
        return readings

    @property
    def _points(self) -> list[_Point]:
        most = max(self.sizes.spark_growth_partitions)
        rows = most * _ROWS_PER_PARTITION_AT_MOST // _BATCHES
        by_partitions = [
            _Point(f"spark-growth.partitions.{count}", f"{count:,} partitions, {rows:,} rows", count, rows)
            for count in self.sizes.spark_growth_partitions
        ]
        same = self.sizes.spark_partition_count
        by_rows = [
            _Point(f"spark-growth.rows.{count}", f"{count:,} rows, {same} partitions", same, count)
            for count in self.sizes.spark_growth_rows
        ]
        return [*by_partitions, *by_rows]

"""The latency of a row from a topic through a streaming query to a consumer of another topic.

The query runs in a warm Spark process and copies without a trigger interval. First, single rows reach an idle query, so
each makes its own micro-batch; then rows arrive at a steady rate. Spark's own sink writes at least once; both our
guarantees are compared with that figure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.bench.figures import percentile
from penstock.bench.measurement import Workbench
from penstock.bench.metric import Metric, Readings, Target, Unit
from penstock.bench.peers import Contestant
from penstock.bench.sizes import Sizes
from penstock.bench.spark.latency_probe import Probe
from penstock.bench.spark.process import SparkProcess, driver_command
from penstock.bench.spark.rows_per_second import engine_of
from penstock.bench.spark.workload import Engine, Mode, Query, Workload
from penstock.bench.topics import create_topic
from penstock.core.guarantee import Guarantee

_AT_MOST_TWO_FIFTHS = Target(ratio_at_most=0.4)
_GUARANTEES: tuple[Guarantee, ...] = ("at_least_once", "exactly_once")
_DISK_OVERHEAD = 4  # single rows are in small record batches


@dataclass(frozen=True, slots=True)
class SparkLatency:
    sizes: Sizes
    name: str = "spark-latency"
    title: str = "Spark, from a topic to a topic: how long a row takes"

    @property
    def metrics(self) -> Sequence[Metric]:
        rate = f"{self.sizes.spark_rows_per_second:,} rows/s"
        metrics: list[Metric] = []
        for guarantee in _GUARANTEES:
            words = guarantee.replace("_", " ")
            titles = {"one.p50": "one row, p50", "steady.p50": f"{rate}, p50", "steady.p99": f"{rate}, p99"}
            metrics += [
                Metric(_key(guarantee, what), f"{title}, {words}", Unit.MILLISECONDS, _AT_MOST_TWO_FIFTHS)
                for what, title in titles.items()
            ]
        return metrics

    @property
    def disk_bytes(self) -> int:
        seconds = self.sizes.spark_steady_warm_up_s + self.sizes.spark_steady_s
        rows = len(_GUARANTEES) * seconds * self.sizes.spark_rows_per_second
        return int(2 * rows * self.sizes.small_record_bytes * _DISK_OVERHEAD)

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        sizes = self.sizes
        engine = engine_of(contestant)
        guarantees = _GUARANTEES if engine is Engine.PENSTOCK else _GUARANTEES[:1]
        readings: dict[str, float] = {}
        with contestant.fresh(workbench.data_parent) as peer:
            queries = tuple(Query(f"in-{each}", f"out-{each}", each) for each in guarantees)
            for query in queries:
                for topic in (query.source_topic, query.sink_topic or ""):
                    create_topic(peer.bootstrap_servers, topic, sizes.time_limit_s, sizes.spark_partition_count)
            workload = Workload(engine, peer.bootstrap_servers, Mode.UNTIL_STOPPED, queries)
            with SparkProcess(driver_command(workload), workbench.data_parent) as spark:
                for query in queries:
                    spark.next_line(sizes.time_limit_s)
                    with Probe(
                        spark,
                        peer.bootstrap_servers,
                        query.source_topic,
                        query.sink_topic or "",
                        partitions=sizes.spark_partition_count,
                        row_bytes=sizes.small_record_bytes,
                        time_limit_s=sizes.time_limit_s,
                    ) as probe:
                        readings |= self._observe(probe, query.guarantee, workbench)
                    spark.end_query()
        return _with_counterparts(readings)

    def _observe(self, probe: Probe, guarantee: Guarantee, workbench: Workbench) -> Readings:
        sizes = self.sizes
        workbench.tell(f"one row at a time, {guarantee}")
        for _ in range(sizes.spark_one_row_warm_up_count):
            probe.one_row()
        one_ms = [probe.one_row() for _ in range(sizes.spark_one_row_count)]
        workbench.tell(f"a steady rate, {guarantee}")
        probe.steady(sizes.spark_rows_per_second, sizes.spark_steady_warm_up_s)
        steady_ms = probe.steady(sizes.spark_rows_per_second, sizes.spark_steady_s)
        return {
            _key(guarantee, "one.p50"): percentile(one_ms, 0.50),
            _key(guarantee, "steady.p50"): percentile(steady_ms, 0.50),
            _key(guarantee, "steady.p99"): percentile(steady_ms, 0.99),
        }


def _with_counterparts(readings: dict[str, float]) -> Readings:
    """A guarantee that an engine does not offer is replaced by the one that it does."""
    weakest = _GUARANTEES[0]
    stand_ins = {
        _key(guarantee, what): readings[_key(weakest, what)]
        for guarantee in _GUARANTEES
        for what in ("one.p50", "steady.p50", "steady.p99")
    }
    return {**stand_ins, **readings}


def _key(guarantee: Guarantee, what: str) -> str:
    return f"spark-latency.{guarantee}.{what}"

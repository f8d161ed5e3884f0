"""The cold start of a pipeline: from the creation of a process to the first row that it has copied.

Stock: a Python program with pyspark and Spark's own connector that copies a topic, at least once. Ours: `penstock run`
of a pipeline that does the same, exactly once; and the same command beside `penstock up`, whose engine already runs
another pipeline. The rows are in the topic before the clock starts, and a consumer waits for the copy.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from penstock.bench.measurement import MeasurementError, Workbench
from penstock.bench.metric import Metric, Readings, Target, Unit
from penstock.bench.peers import Contestant, Peer
from penstock.bench.sizes import Sizes
from penstock.bench.spark.process import SparkProcess, driver_command
from penstock.bench.spark.rows_per_second import engine_of
from penstock.bench.spark.topics import fill, reader
from penstock.bench.spark.workload import Engine, Mode, Query, Workload
from penstock.bench.topics import create_topic

_QUICKER = Target(ratio_at_most=0.6)
_SECOND_PIPELINE = Target(value_below=2.0)
_ROWS = 100
_DISK_BYTES = 50_000_000
_PIPELINE = """\
name: {name}
guarantee: exactly_once
bootstrap_servers: {servers}
source: {{topic: {source}, format: binary}}
sink: {{topic: {sink}, format: binary}}
"""


@dataclass(frozen=True, slots=True)
class SparkStart:
    sizes: Sizes
    name: str = "spark-start"
    title: str = "Spark, from the start of a process to the first row copied"

    @property
    def metrics(self) -> Sequence[Metric]:
        return [
            Metric("spark-start.cold", "cold", Unit.SECONDS, _QUICKER),
            Metric(
                "spark-start.second",
                "a second pipeline beside `penstock up`",
                Unit.SECONDS,
                _SECOND_PIPELINE,
                ours_alone=True,
            ),
        ]

    @property
    def disk_bytes(self) -> int:
        return _DISK_BYTES

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings:
        with contestant.fresh(workbench.data_parent) as peer:
            if engine_of(contestant) is Engine.STOCK:
                source, sink = self._topics(peer, "cold")
                query = Query(source, sink)
                workload = Workload(Engine.STOCK, peer.bootstrap_servers, Mode.UNTIL_STOPPED, (query,))
                workbench.tell("a cold start")
                with SparkProcess(driver_command(workload), workbench.data_parent) as spark:
                    return {"spark-start.cold": self._first_row_s(spark, peer, sink)}
            with tempfile.TemporaryDirectory(dir=workbench.data_parent, prefix="pipelines-") as directory:
                workbench.tell("a cold start")
                with self._pipeline(peer, "cold", Path(directory), workbench) as cold_s:
                    pass
                with SparkProcess(
                    _up(), workbench.data_parent, directory=Path(directory), ends_with_input=False
                ) as engine:
                    while engine.next_line(self.sizes.time_limit_s)["event"] != "ready":
                        pass
                    workbench.tell("a first pipeline in the engine")
                    with self._pipeline(peer, "first", Path(directory), workbench):
                        workbench.tell("a second pipeline in the engine")
                        with self._pipeline(peer, "second", Path(directory), workbench) as second_s:
                            pass
        return {"spark-start.cold": cold_s, "spark-start.second": second_s}

    def _topics(self, peer: Peer, name: str) -> tuple[str, str]:
        source, sink = f"in-{name}", f"out-{name}"
        fill(
            peer.bootstrap_servers,
            source,
            partitions=self.sizes.spark_partition_count,
            row_bytes=self.sizes.small_record_bytes,
            rows=_ROWS,
            time_limit_s=self.sizes.time_limit_s,
        )
        create_topic(peer.bootstrap_servers, sink, self.sizes.time_limit_s, self.sizes.spark_partition_count)
        return source, sink

    @contextlib.contextmanager
    def _pipeline(self, peer: Peer, name: str, directory: Path, workbench: Workbench) -> Iterator[float]:
        """Runs a pipeline and yields the time to its first row. `penstock run` looks for an engine in `directory`."""
        source, sink = self._topics(peer, name)
        file = directory / f"{name}.yaml"
        text = _PIPELINE.format(name=name, servers=peer.bootstrap_servers, source=source, sink=sink)
        file.write_text(text, encoding="utf-8")
        command = [_program(), "run", "--json", str(file)]
        with SparkProcess(command, workbench.data_parent, directory=directory, ends_with_input=False) as spark:
            yield self._first_row_s(spark, peer, sink)

    def _first_row_s(self, spark: SparkProcess, peer: Peer, sink: str) -> float:
        consumer = reader(peer.bootstrap_servers, sink, self.sizes.spark_partition_count)
        deadline_s = time.monotonic() + self.sizes.time_limit_s
        try:
            while time.monotonic() < deadline_s:
                message = consumer.poll(0.05)
                if message is not None and message.error() is None:
                    return spark.age_s
                spark.check_alive()
        finally:
            consumer.close()
        raise MeasurementError(f"no row was copied within {self.sizes.time_limit_s:g} s")


def _program() -> str:
    return str(Path(sys.executable).with_name("penstock"))


def _up() -> list[str]:
    return [_program(), "up", "--json", "--listen", "127.0.0.1:0"]

"""A pipeline on Apache Kafka and a cluster whose input is sent in portions, and what has to come out of it.

A driver waits for rows when it has none. So a test arms a crash point first and sends a portion then: the kill lands in
the middle, however fast or slow the machine is.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from penstock.testing.apache_kafka import ApacheKafka
from tests import crash_points
from tests.pipeline.topic_contents import contents
from tests.pipeline.topic_feed import AN_HOUR_AGO_MS, Sent, TopicFeed
from tests.scale.pipeline_process import PipelineProcess, await_that

PORTION: Final = 2000
_PARTITIONS: Final = 4
_BROKEN_ONE_IN: Final = 50
_REPEATED_ONE_IN: Final = 10
# These JVMs live for seconds: what the second compiler would do for them takes longer than it saves.
_QUICK_START: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_SPARK: Final = """\
spark:
  spark.driver.host: 127.0.0.1
  spark.driver.bindAddress: 127.0.0.1
  spark.executor.memory: 512m
  spark.cores.max: 2
  spark.sql.shuffle.partitions: 2
  spark.driver.extraJavaOptions: {quick_start}
  spark.executor.extraJavaOptions: {quick_start}
  spark.executorEnv.{variable}: {crash_directory}
"""
_PIPELINE: Final = """\
name: {name}
guarantee: {guarantee}
source:
  topic: {source}
  schema: id BIGINT, amount DOUBLE, at TIMESTAMP
  max_offsets_per_trigger: 1000
{source_settings}\
transform: SELECT id, amount * 2 AS doubled FROM source
sink: {sink}
on_error: {on_error}
"""


def spark_settings(crash_directory: Path) -> str:
    """Two cores of the four, one of each worker, so that another driver finds room. Executors know the crash points."""
    return _SPARK.format(
        variable=crash_points.ENVIRONMENT_VARIABLE, crash_directory=crash_directory, quick_start=_QUICK_START
    )


class ClusterPipeline:
    """Its rows are numbered; one in fifty is broken. `sink` is YAML, `source_settings` are lines of it."""

    def __init__(
        self,
        directory: Path,
        master: str,
        kafka: ApacheKafka,
        *,
        sink: str,
        guarantee: str = "exactly_once",
        source_settings: Sequence[str] = (),
        keep_broken: bool = True,
    ) -> None:
        self.directory = directory
        self.name = f"doubled-{uuid.uuid4().hex[:8]}"
        self.steps = directory / "steps"
        self.steps.mkdir()
        self._master = master
        self._kafka = kafka
        self._feed = TopicFeed(kafka.bootstrap_servers)
        self._source = self._feed.create(partitions=_PARTITIONS)
        self._dead_letters = self._feed.create()
        self._numbered = 0
        self._ends: Counter[int] = Counter()
        self.good: Counter[int] = Counter()
        self.broken: Counter[bytes | None] = Counter()
        self._file = directory / "doubled.yaml"
        text = _PIPELINE.format(
            name=self.name,
            guarantee=guarantee,
            source=self._source,
            source_settings="".join(f"  {line}\n" for line in source_settings),
            sink=sink,
            on_error=f"{{dead_letters: {self._dead_letters}}}" if keep_broken else "drop",
        )
        self._file.write_text(text + spark_settings(self.steps))

    def run(self, *options: str, checkpoint: str = "checkpoint") -> PipelineProcess:
        servers = ("--bootstrap-server", self._kafka.bootstrap_servers)
        words = (*options, "--master", self._master, "--checkpoint", str(self.directory / checkpoint), *servers)
        return PipelineProcess(self.directory, self.steps, *words, str(self._file))

    def send_portion(self, *, with_repeats: bool = False) -> None:
        """Repeats are of good rows only: a broken one has no id to be known by."""
        records = []
        for number in range(self._numbered, self._numbered + PORTION):
            if number % _BROKEN_ONE_IN:
                self.good[number] += 1
            else:
                self.broken[_broken(number)] += 1
            records.append(_record(number))
            if with_repeats and number % _REPEATED_ONE_IN == 1:
                records.append(_record(number // 2 | 1))
        self._numbered += PORTION
        self._feed.send(self._source, records)
        self._ends.update(record.partition for record in records)

    def kill_at(self, step: str, *, with_repeats: bool = False) -> None:
        """A driver from its start to a portion of which it does not see the end."""
        with self.run() as driver:
            driver.await_start()
            driver.arm(step)
            self.send_portion(with_repeats=with_repeats)
            driver.require_killed_at(step)

    def kill_others_at(self, step: str, pid: int, *, with_repeats: bool = False) -> None:
        """A process that is not the driver; returns when it has been killed."""
        crash_points.arm(self.steps, step, pid)
        self.send_portion(with_repeats=with_repeats)
        await_that(f"somebody arrived at {step}", lambda: crash_points.was_hit(self.steps, step))

    def await_all(self, driver: PipelineProcess) -> None:
        driver.await_offsets(self._source, dict(self._ends))

    def finish(self) -> None:
        with self.run("--once") as driver:
            assert driver.wait() == 0, driver.said()

    def require_dead_letters(self) -> None:
        found = Counter(record.value for record in contents(self._kafka.bootstrap_servers, self._dead_letters))
        assert found == self.broken


def ids_in_topic(servers: str, topic: str) -> Counter[int]:
    return Counter(json.loads(record.value or b"")["id"] for record in contents(servers, topic))


def _record(number: int) -> Sent:
    at = datetime.fromtimestamp((AN_HOUR_AGO_MS + number) / 1000, UTC).isoformat(timespec="milliseconds")
    good = json.dumps({"id": number, "amount": 1.5, "at": at}).encode()
    value = good if number % _BROKEN_ONE_IN else _broken(number)
    return Sent(number % _PARTITIONS, None, value, AN_HOUR_AGO_MS + number)


def _broken(number: int) -> bytes:
    return b'{"id": %d, "amount"' % number

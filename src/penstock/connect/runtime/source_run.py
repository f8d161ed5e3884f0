"""The loop of a source connector: plan slices, run one job that produces them, go on from their offsets.

Owns the connector's positions and its tasks' producers while it runs. With exactly-once support every start takes a new
epoch for each task's transactional id first, and reads the offsets then: an earlier run that still produces can commit
nothing that this one has not read.

It must not know Spark (`SparkJobs` runs tasks) nor states and retries (`spark_runner.py`): it raises what happens.

Invariant: after any failure the loop ends, and a new one takes new epochs and reads the offsets again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.connect.connector import Slice, SourceConnector, SourceOffset, partition_key
from penstock.connect.runtime.client_settings import ProducerSettings
from penstock.connect.runtime.offset_storage import OffsetStorage
from penstock.connect.runtime.record_steps import RecordSteps
from penstock.connect.runtime.source_offsets import StoredOffset
from penstock.connect.runtime.source_task import SourceTask, SourceTaskResult, TransactionalProducer, run_source_task
from penstock.connect.runtime.spark_jobs import SparkJobs
from penstock.connect.runtime.topic_creation import TopicCreation
from penstock.connect.storage import offset_records
from penstock.pipeline import crash_points
from penstock.wire.client import WireClient

logger = logging.getLogger(__name__)


def transactional_id(worker_group: str, connector: str, task: int) -> str:
    """As Kafka Connect names it (KIP-618)."""
    return f"{worker_group}-{connector}-{task}"


@dataclass(frozen=True, slots=True)
class SourceProgress:
    records: int
    bytes: int
    failed: int
    topics: Sequence[str]


@dataclass(frozen=True, slots=True)
class SourceRun:
    """One life of a source connector, from its start to `stop` or to the first failure, which it raises."""

    name: str
    connector: SourceConnector
    worker_group: str
    is_exactly_once: bool
    settings: ProducerSettings
    creation: TopicCreation
    offsets: OffsetStorage
    steps: RecordSteps
    task_count: int
    jobs: SparkJobs
    stop: threading.Event
    moved: Callable[[SourceProgress], None]
    started: Callable[[], None] = field(default=lambda: None)

    def run(self) -> None:
        self.connector.start()
        try:
            with WireClient(self.settings.wire) as client:
                _Loop(self, client).run()
        finally:
            self.connector.stop()


class _Loop:
    def __init__(self, source: SourceRun, client: WireClient) -> None:
        self._source = source
        self._client = client
        self._producers: dict[int, TransactionalProducer] = {}
        self._stored: dict[str, StoredOffset] = {}

    def run(self) -> None:
        source = self._source
        if source.is_exactly_once:
            self._take_epochs()
        crash_points.reached("connect.source_after_epochs")
        self._stored = source.offsets.read(self._client, source.name)
        source.started()
        while not source.stop.is_set():
            slices = source.connector.plan({key: each.offset for key, each in self._stored.items()})
            if not slices:
                source.stop.wait(source.connector.poll_interval_s)
                continue
            self._move(slices)

    def _take_epochs(self) -> None:
        source = self._source
        for number in range(source.task_count):
            name = transactional_id(source.worker_group, source.name, number)
            identity = self._client.init_producer_id(
                name, transaction_timeout_ms=source.settings.transaction_timeout_ms
            )
            self._producers[number] = TransactionalProducer(name, identity)

    def _move(self, slices: Sequence[Slice]) -> None:
        source = self._source
        # Those that another writer has written in its own way; there are none, as a rule.
        keys = {
            name: each.key
            for name, each in self._stored.items()
            if each.key != offset_records.encode_key(source.name, each.partition)
        }
        tasks = [
            self._task(number, share, keys)
            for number, share in enumerate(slices[start :: source.task_count] for start in range(source.task_count))
            if share
        ]
        results = source.jobs.run(source.name, run_source_task, tasks, source.stop)
        crash_points.reached("connect.source_after_job")
        source.offsets.save(source.name, [pair for each in results for pair in each.offsets], keys)
        self._moved(tasks, results)

    def _task(self, number: int, slices: Sequence[Slice], keys: Mapping[str, bytes]) -> SourceTask:
        source = self._source
        return SourceTask(
            number,
            source.connector,
            slices,
            source.steps,
            source.settings,
            source.creation,
            source.offsets.topic,
            keys,
            self._producers.get(number),
        )

    def _moved(self, tasks: Sequence[SourceTask], results: Sequence[SourceTaskResult]) -> None:
        source = self._source
        committed: dict[str, SourceOffset] = {}
        for task, result in zip(tasks, results, strict=True):
            if result.producer is not None:
                self._producers[task.number] = result.producer
            for partition, offset in result.offsets:
                name = partition_key(partition)
                known = self._stored.get(name)
                key = offset_records.encode_key(source.name, partition) if known is None else known.key
                self._stored[name] = StoredOffset(key, partition, offset)
                committed[name] = offset
        for line in (line for each in results for line in each.log_lines):
            logger.error("%s", line)
        if committed:
            source.connector.committed(committed)
        source.moved(
            SourceProgress(
                sum(each.records for each in results),
                sum(each.bytes for each in results),
                sum(each.failed for each in results),
                sorted({topic for each in results for topic in each.topics}),
            )
        )

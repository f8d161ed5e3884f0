"""The loop of a sink connector: find new records, run one job that moves them, commit, go on.

Owns the connector's positions while it runs, and the order of effect and commit:

- at_most_once: the group's offsets are committed before the job.
- at_least_once: the group's offsets are committed after the job.
- exactly_once: the sink commits records and offsets together, in its ledger. The group gets a copy, for tools that show
  lag; it decides only where the ledger knows nothing of a partition yet.

It must not know Spark (`SparkJobs` runs tasks) nor states and retries (`spark_runner.py`): it raises what happens.

Invariant: a job begins where the last commit ended. After any failure the loop ends, and a new one reads positions from
the group or the ledger again.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.connect.config.definition import ConfigException
from penstock.connect.connector import Batch, BatchRefused, ConnectError, RetriableError, SinkConnector
from penstock.connect.data.records import Failure
from penstock.connect.runtime.client_settings import ConsumerSettings
from penstock.connect.runtime.record_steps import RecordSteps
from penstock.connect.runtime.sink_plan import Positions, next_ranges, share_out, start_positions
from penstock.connect.runtime.sink_task import SinkTask, SinkTaskResult, refuse_late, run_sink_task
from penstock.connect.runtime.spark_jobs import SparkJobs, TaskFailed
from penstock.core.errors import UnknownTopic
from penstock.core.guarantee import Guarantee
from penstock.core.ids import OffsetAndMetadata, TopicPartition
from penstock.pipeline import crash_points
from penstock.pipeline.topics.batch_sizing import BatchSizing
from penstock.pipeline.topics.planning import OffsetRange, rows_between
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.wire.client import RecordWatch, WireClient

logger = logging.getLogger(__name__)

GUARANTEES: Final = ("at_most_once", "at_least_once", "exactly_once")
_TARGET_S: Final = 2.0  # of one job, where there is a backlog
# The first job shows how large records are, and how long they take.
_FIRST_ROWS: Final = 20_000
# Less is not worth a job: on a busy machine a job without records takes as long as it should take with them, and jobs
# that were made smaller for that would move nothing.
_JOB_BYTES_MIN: Final = 8 * 1024 * 1024
_JOB_BYTES_MAX: Final = 512 * 1024 * 1024
_WAIT_MS: Final = 1000
_MISSING_TOPIC_MS: Final = 500
# A job costs as much as some ten thousand records do: a few records wait a moment for more.
_FEW_ROWS: Final = 1000
_LINGER_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Subscription:
    """`topics` or `topics.regex` of a configuration; exactly one of them."""

    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None

    @classmethod
    def parse(cls, config: Mapping[str, str]) -> Subscription:
        topics = tuple(dict.fromkeys(each.strip() for each in config.get("topics", "").split(",") if each.strip()))
        expression = config.get("topics.regex", "").strip()
        if topics and expression:
            raise ConfigException("topics and topics.regex are mutually exclusive options, but both are set.", "topics")
        if not topics and not expression:
            raise ConfigException("Must configure one of topics or topics.regex", "topics")
        try:
            return cls(topics, re.compile(expression) if expression else None)
        except re.error as mistake:
            raise ConfigException(
                f"Invalid value {expression} for configuration topics.regex: Syntax error in regular expression:"
                f" {mistake}",
                "topics.regex",
            ) from mistake

    def misses(self, partitions: Iterable[TopicPartition]) -> bool:
        """Whether a topic that is named does not exist yet."""
        return not {partition.topic for partition in partitions}.issuperset(self.topics)

    def partitions(self, client: WireClient) -> list[TopicPartition]:
        """Those that exist now, sorted. A topic may appear later."""
        found = client.metadata(self.topics or None).topics
        return sorted(
            TopicPartition(name, index)
            for name, topic in found.items()
            if self.pattern is None or (self.pattern.fullmatch(name) and not topic.is_internal)
            for index in topic.partitions
        )


@dataclass(frozen=True, slots=True)
class SinkProgress:
    """What a job moved, and how much is left. `lag` counts offsets."""

    records: int
    bytes: int
    failed: int
    lag: int
    topics: Sequence[str]


@dataclass(frozen=True, slots=True)
class SinkRun:
    """One life of a sink connector, from its start to `stop` or to the first failure, which it raises."""

    name: str
    connector: SinkConnector
    guarantee: Guarantee
    subscription: Subscription
    settings: ConsumerSettings
    steps: RecordSteps
    task_count: int
    jobs: SparkJobs
    stop: threading.Event
    moved: Callable[[SinkProgress], None]
    started: Callable[[], None] = field(default=lambda: None)

    def run(self) -> None:
        self.connector.start()
        try:
            with (
                WireClient(self.settings.wire) as client,
                client.record_watch(isolation_level=self.settings.isolation_level) as watch,
            ):
                _Loop(self, client, watch).run()
        finally:
            self.connector.stop()


def bounded_rows(rows: int, record_bytes: float | None) -> int:
    """Of one job. The size of records is None before the first job."""
    if not record_bytes:
        return rows
    least, most = (max(1, int(bound / record_bytes)) for bound in (_JOB_BYTES_MIN, _JOB_BYTES_MAX))
    return min(max(rows, least), most)


class _Loop:
    def __init__(self, sink: SinkRun, client: WireClient, watch: RecordWatch) -> None:
        self._sink = sink
        self._client = client
        self._watch = watch
        self._sizing = BatchSizing(_TARGET_S, _FIRST_ROWS)
        self._record_bytes: float | None = None
        self._spark_s = 0.0
        self._positions: dict[TopicPartition, int] = {}
        self._partitions_seen_at = float("-inf")

    def run(self) -> None:
        sink = self._sink
        self._find_partitions()
        sink.started()
        while not sink.stop.is_set():
            self._find_partitions()
            try:
                ends = self._ends()
            except UnknownTopic:
                self._partitions_seen_at = float("-inf")  # one of them was deleted
                sink.stop.wait(_LINGER_S)
                continue
            behind = [partition for partition, end in ends.items() if end < self._positions[partition]]
            if behind:  # the topic was deleted and created again, or lost records
                self._positions.update(self._starts(behind))
            available = rows_between(self._positions, ends)
            if available == 0:
                self._wait_for_records(ends)
                continue
            if available < _FEW_ROWS and sink.stop.wait(_LINGER_S):
                return
            # More records would not make what Spark needs for a job any longer.
            self._sizing.asked_for_next(time.monotonic() - self._spark_s)
            self._sizing.rows = bounded_rows(self._sizing.rows, self._record_bytes)
            self._sizing.planned(available, time.monotonic())
            self._move(next_ranges(self._positions, ends, self._sizing.rows), ends)

    def _find_partitions(self) -> None:
        """New partitions begin where the group or the ledger says; those that are gone are forgotten."""
        now = time.monotonic()
        max_age_ms = self._sink.settings.metadata_max_age_ms
        if self._sink.subscription.misses(self._positions):
            max_age_ms = min(max_age_ms, _MISSING_TOPIC_MS)
        if (now - self._partitions_seen_at) * 1000 < max_age_ms:
            return
        existing = self._sink.subscription.partitions(self._client)
        self._partitions_seen_at = now
        new = [partition for partition in existing if partition not in self._positions]
        kept = {partition: self._positions[partition] for partition in existing if partition in self._positions}
        self._positions = {**kept, **self._starts(new)}

    def _starts(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        if not partitions:
            return {}
        sink = self._sink
        found = self._client.offset_fetch(sink.settings.group, partitions)
        committed = {partition: each.offset for partition, each in found.items()}
        if sink.guarantee == "exactly_once":
            ledger = sink.connector.positions(partitions)
            if ledger is None:
                raise ConnectError(
                    f"connector '{sink.name}': this sink keeps no positions, so it cannot be exactly_once"
                )
            # What the ledger does not have was moved by Kafka Connect, or under another guarantee: the group has it.
            committed.update(ledger)
        earliest = self._client.list_offsets(dict.fromkeys(partitions, "earliest"))
        latest = self._client.list_offsets(dict.fromkeys(partitions, "latest"))
        return start_positions(
            partitions,
            committed,
            {partition: each.offset for partition, each in earliest.items()},
            {partition: each.offset for partition, each in latest.items()},
            sink.settings.reset,
        )

    def _ends(self) -> dict[TopicPartition, int]:
        if not self._positions:
            return {}
        level = self._sink.settings.isolation_level
        listed = self._client.list_offsets(dict.fromkeys(self._positions, "latest"), isolation_level=level)
        return {partition: each.offset for partition, each in listed.items()}

    def _wait_for_records(self, ends: Positions) -> None:
        if not ends:
            self._sink.stop.wait(_MISSING_TOPIC_MS / 1000)
            return
        self._watch.wait(ends, _WAIT_MS)

    def _move(self, ranges: Sequence[OffsetRange], ends: Positions) -> None:
        sink = self._sink
        batch = Batch({each.topic_partition: (each.start_offset, each.end_offset) for each in ranges})
        failed = 0
        if sink.guarantee == "at_most_once":
            self._commit_group(batch)
            crash_points.reached("connect.sink_after_offsets")
        results = self._run_job(ranges)
        crash_points.reached("connect.sink_before_commit")
        try:
            self._commit(results, batch)
        except BatchRefused:
            results = self._run_job(ranges, keeps_places=True)
            failed = self._commit_refusing(results, batch)
        self._positions.update(batch.end_offsets)
        records, size = sum(each.records for each in results), sum(each.bytes for each in results)
        if records:
            self._record_bytes = size / records
        sink.moved(
            SinkProgress(
                records,
                size,
                sum(each.failed for each in results) + failed,
                rows_between(self._positions, ends),
                sorted({partition.topic for partition in batch.ranges}),
            )
        )

    def _run_job(self, ranges: Sequence[OffsetRange], *, keeps_places: bool = False) -> list[SinkTaskResult]:
        sink = self._sink
        tasks = [
            SinkTask(number, sink.connector, sink.guarantee, sink.settings, share, sink.steps, keeps_places)
            for number, share in enumerate(share_out(ranges, sink.task_count))
        ]
        begun_s = time.monotonic()
        try:
            results = sink.jobs.run(sink.name, run_sink_task, tasks, sink.stop)
        except TaskFailed as failed:
            if failed.failure.condition == UnknownTopic.condition:  # deleted; the next run looks for what is left
                raise RetriableError(failed.failure.message) from failed
            raise
        self._spark_s = time.monotonic() - begun_s - max(each.seconds for each in results)
        for line in (line for each in results for line in each.log_lines):
            logger.error("%s", line)
        return results

    def _commit_refusing(self, results: Sequence[SinkTaskResult], batch: Batch) -> int:
        """Returns how many records the outside system has refused."""
        failed = 0

        def refuse(task: int, failures: Sequence[Failure]) -> None:
            nonlocal failed
            places = results[task].places
            assert places is not None
            steps = self._sink.steps.of_sink(task)
            try:
                refuse_late(self._sink.settings, places, steps, failures)
            finally:
                for line in steps.log_lines:
                    logger.error("%s", line)
            failed += steps.failed

        self._commit(results, Batch(batch.ranges, refuse))
        return failed

    def _commit(self, results: Sequence[SinkTaskResult], batch: Batch) -> None:
        sink = self._sink
        sink.connector.commit([each.outcome for each in results], batch)
        if sink.guarantee == "at_most_once":
            return
        crash_points.reached("connect.sink_before_offsets")
        self._commit_group(batch)

    def _commit_group(self, batch: Batch) -> None:
        offsets = {partition: OffsetAndMetadata(offset) for partition, offset in batch.end_offsets.items()}
        group = self._sink.settings.group
        try:
            self._client.offset_commit(group, offsets)
        except BrokerError as refusal:
            if refusal.code != ErrorCode.UNKNOWN_MEMBER_ID:
                raise
            raise RetriableError(
                f"group '{group}' has members, for example of another Connect worker, so the connector cannot commit"
                " its offsets; stop them, or set consumer.override.group.id"
            ) from refusal

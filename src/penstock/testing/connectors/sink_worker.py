"""A sink's worker in one process: plans batches of a topic, runs their tasks one after the other, commits.

It does what `connect/runtime` does around a connector, and dies where a test says. The topic and the consumer group
outlive it.

Invariant: whatever passes between driver and tasks is pickled.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import pyarrow.compute as pc

from penstock.connect.connector import Batch, BatchRefused, SinkConnector, SinkWriter
from penstock.connect.data.records import Failure
from penstock.core.guarantee import Guarantee
from penstock.core.ids import TopicPartition
from penstock.testing.connectors.shapes import Record, groups_of


class CrashPoint(Enum):
    BEFORE_JOB = "before the job"
    PUT_FAILED = "a task failed after a put, and its writer was abandoned"
    PUT_KILLED = "a task was killed after a put"
    ONE_TASK_FINISHED = "one task had finished"
    BEFORE_COMMIT = "all tasks had finished"
    BEFORE_GROUP_COMMIT = "the connector had committed"


class Crashed(Exception):
    """The worker is gone."""


@dataclass(slots=True)
class TopicAndGroup:
    """What the cluster keeps: records by partition, and the group's offsets."""

    records: Mapping[TopicPartition, Sequence[Record]]
    offsets: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def end_offsets(self) -> dict[TopicPartition, int]:
        return {partition: len(records) for partition, records in self.records.items()}

    @property
    def numbers(self) -> list[int]:
        return sorted(each.number for records in self.records.values() for each in records if not each.is_tombstone)


@dataclass(frozen=True, slots=True)
class Reported:
    """A failure, and the offsets that its task read: row 0 is the record at `start`."""

    partition: TopicPartition
    start: int
    end: int
    failure: Failure

    @property
    def offsets(self) -> list[int]:
        return [self.start + row for row in self.failure.rows]


class SinkWorker:
    def __init__(self, connector: SinkConnector, guarantee: Guarantee, topic: TopicAndGroup, tasks: int = 2) -> None:
        self.connector = connector
        self.failures: list[Reported] = []
        self.killed: list[SinkWriter] = []
        self._guarantee = guarantee
        self._topic = topic
        self._tasks = tasks

    def start(self) -> None:
        self.connector.start()

    def positions(self) -> dict[TopicPartition, int]:
        partitions = sorted(self._topic.records)
        found: Mapping[TopicPartition, int] | None = None
        if self._guarantee == "exactly_once":
            found = self.connector.positions(partitions)
            assert found is not None, "a sink that is exactly_once has positions of its own"
        found = self._topic.offsets if found is None else found
        return {partition: found.get(partition, 0) for partition in partitions}

    def next_batch(self, records_max: int) -> Batch:
        """At most `records_max` records of each partition."""
        ends = self._topic.end_offsets
        starts = self.positions()
        ranges = {each: (start, min(start + records_max, ends[each])) for each, start in starts.items()}
        return Batch({each: (start, end) for each, (start, end) in ranges.items() if start < end})

    def move(self, batch: Batch, crash: CrashPoint | None = None) -> None:
        if self._guarantee == "at_most_once":
            self._topic.offsets.update(batch.end_offsets)
        _die(crash, CrashPoint.BEFORE_JOB)
        outcomes = self._run_job(batch, crash)
        _die(crash, CrashPoint.BEFORE_COMMIT)
        try:
            self.connector.commit(outcomes, batch)
        except BatchRefused:
            shares = self.shares(batch)
            outcomes = self._run_job(batch, crash)
            refusing = Batch(batch.ranges, lambda task, failures: self._report(shares[task], failures))
            self.connector.commit(outcomes, refusing)
        _die(crash, CrashPoint.BEFORE_GROUP_COMMIT)
        if self._guarantee != "at_most_once":
            self._topic.offsets.update(batch.end_offsets)

    def _run_job(self, batch: Batch, crash: CrashPoint | None) -> list[Any]:
        outcomes = []
        for task, share in enumerate(self.shares(batch)):
            outcomes.append(self.run_task(task, share, crash))
            _die(crash, CrashPoint.ONE_TASK_FINISHED)
        return outcomes

    def drain(self, records_max: int) -> None:
        while (batch := self.next_batch(records_max)).ranges:
            self.move(batch)

    def shares(self, batch: Batch) -> list[Batch]:
        ranges = sorted(batch.ranges.items())
        shares = [dict(ranges[task :: self._tasks]) for task in range(self._tasks)]
        return [Batch(share) for share in shares if share]

    def open_writer(self, task: int) -> SinkWriter:
        copy: SinkConnector = pickle.loads(pickle.dumps(self.connector))  # noqa: S301 (our own)
        return copy.open_writer(task, self._guarantee)

    def run_task(self, task: int, share: Batch, crash: CrashPoint | None = None) -> Any:
        writer = self.open_writer(task)
        writer.refuse = lambda failures: self._report(share, failures)
        self.put(writer, share, crash)
        return pickle.loads(pickle.dumps(writer.finish()))  # noqa: S301 (our own)

    def put(self, writer: SinkWriter, share: Batch, crash: CrashPoint | None = None) -> None:
        first = 0
        for partition, (start, end) in share.ranges.items():
            for group in groups_of(partition, start, self._topic.records[partition][start:end]):
                numbered = replace(group, rows=pc.add(group.rows, first))
                self._report(share, writer.put(numbered))
                if crash is CrashPoint.PUT_FAILED:
                    writer.abandon()
                    raise Crashed
                if crash is CrashPoint.PUT_KILLED:
                    self.killed.append(writer)
                    raise Crashed
            first += end - start

    def _report(self, share: Batch, failures: Sequence[Failure]) -> None:
        """`rows` of a task's records are numbered over all of its ranges."""
        first = 0
        for partition, (start, end) in share.ranges.items():
            for failure in failures:
                rows = [row - first for row in failure.rows if first <= row < first + end - start]
                if rows:
                    self.failures.append(Reported(partition, start, end, replace(failure, rows=rows)))
            first += end - start

    def end_processes(self) -> None:
        """Closes what the end of a process closes; after all that a test looks at."""
        for writer in self.killed:
            writer.abandon()
        self.connector.stop()


def _die(crash: CrashPoint | None, here: CrashPoint) -> None:
    if crash is here:
        raise Crashed

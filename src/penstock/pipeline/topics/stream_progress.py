"""Where the next micro-batch of a query ends. The part of the stream reader that decides; it never waits.

Owns: partitions that were added, that are gone, that were created again; how much a batch may take. It must never know
Spark, and asks the cluster only where partitions begin that it has not seen.

Invariants:
- If there is nothing new, the answer is the very offset that was passed in: Spark runs a batch for any other text.
- A batch that was planned reads the same offsets whenever it is planned again: whatever does not follow from the end of
  the batch before is written into its own end (`StreamOffset.starts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.core.ids import TopicPartition
from penstock.pipeline.topics.data_loss import DataLossPolicy
from penstock.pipeline.topics.offsets import Offsets, StreamOffset
from penstock.pipeline.topics.planning import OffsetRange, limit_rows, rows_between
from penstock.pipeline.topics.resolution import Snapshot, TopicCluster


@dataclass(frozen=True, slots=True)
class Available:
    """What a batch could read: from where, until where, and which of the starts are news to the offset log."""

    starts: Offsets
    ends: Offsets
    new_starts: Offsets
    changes_partitions: bool

    @property
    def rows(self) -> int:
        return rows_between(self.starts, self.ends)

    @property
    def is_nothing(self) -> bool:
        return self.rows == 0 and not self.changes_partitions

    def limited(self, max_rows: int | None) -> StreamOffset:
        ends = self.ends if max_rows is None else limit_rows(self.starts, self.ends, max_rows)
        return StreamOffset(ends, self.new_starts)


def available(
    cluster: TopicCluster,
    position: Offsets,
    found: Snapshot,
    known_topic_ids: Mapping[str, bytes],
    loss: DataLossPolicy,
    *,
    is_first_batch: bool,
) -> Available:
    """Compares what was read (`position`) with what exists (`found`), and reports what is missing."""
    latest = found.latest
    for partition in sorted(position.keys() - latest.keys()):
        loss.gone(partition, position[partition])
    recreated = _recreated(position, found, known_topic_ids, loss)
    added = latest.keys() - position.keys()
    beginnings = cluster.earliest(sorted(added | recreated)) if added or recreated else {}
    for partition in sorted(added):
        if beginnings.get(partition, 0) > 0:
            loss.began_late(partition, beginnings[partition])
    # A partition that vanished since it was listed is left out; the next look finds it gone.
    ends = {
        partition: max(end, beginnings.get(partition, 0))
        for partition, end in latest.items()
        if partition in beginnings or partition not in added | recreated
    }
    starts = {partition: beginnings.get(partition, position.get(partition, 0)) for partition in ends}
    return Available(
        starts=starts,
        ends=ends,
        new_starts=starts if is_first_batch else {partition: beginnings[partition] for partition in sorted(beginnings)},
        changes_partitions=is_first_batch or bool(beginnings) or ends.keys() != position.keys(),
    )


def _recreated(
    position: Offsets, found: Snapshot, known_topic_ids: Mapping[str, bytes], loss: DataLossPolicy
) -> set[TopicPartition]:
    recreated: set[TopicPartition] = set()
    for partition in sorted(position.keys() & found.latest.keys()):
        topic = partition.topic
        if found.latest[partition] < position[partition]:
            loss.shrunk(partition, position[partition], found.latest[partition])
        elif known_topic_ids.get(topic, found.topic_ids[topic]) != found.topic_ids[topic]:
            loss.recreated(partition, position[partition])
        else:
            continue
        recreated.add(partition)
    return recreated


def unchecked_ranges(start: StreamOffset, end: StreamOffset) -> list[OffsetRange]:
    """The same as `batch_ranges` where the end was decided on at this start, and nothing has been lost since."""
    starts = dict(start.ends) | dict(end.starts)
    return [OffsetRange(partition, starts[partition], last) for partition, last in end.ends.items()]


def batch_ranges(
    cluster: TopicCluster, start: StreamOffset, end: StreamOffset, loss: DataLossPolicy
) -> list[OffsetRange]:
    """The offsets to read from one stored offset to another, as far as they are still there."""
    # The end of a query's first batch says where all of it begins; what was passed as its start was looked up again.
    is_first_batch = end.starts.keys() >= end.ends.keys()
    starts = dict(end.starts) if is_first_batch else dict(start.ends) | dict(end.starts)
    for partition in sorted(starts.keys() - end.ends.keys()):
        loss.gone(partition, starts[partition])
    wanted = [partition for partition, offset in end.ends.items() if starts.get(partition) != offset]
    if not wanted:
        return []
    earliest, latest = cluster.earliest(wanted), cluster.latest(wanted)
    ranges = []
    for partition in sorted(wanted):
        last = end.ends[partition]
        first = starts.get(partition, earliest.get(partition, last))
        if partition not in earliest or partition not in latest:
            loss.gone(partition, first)
            continue
        if min(last, latest[partition]) < first:
            loss.shrunk(partition, first, min(last, latest[partition]))
            first = earliest[partition]
        elif latest[partition] < last:
            loss.shrunk(partition, last, latest[partition])
        if first < earliest[partition]:
            loss.aged_out(partition, first, earliest[partition])
            first = earliest[partition]
        ranges.append(OffsetRange(partition, first, min(last, latest[partition])))
    return ranges

"""What must hold at every moment, looked up in the brokers themselves.

- One leader per epoch.
- A broker whose registration has ended acknowledges and answers nothing, although it has not heard of the end.
- A record below a high watermark is committed: it stays what it is, at its offset, for ever.
- Every replica that the metadata calls in sync or eligible holds all committed records, also while its broker is down.
- Replicas are equal up to their high watermarks, which do not go back.

The committed records of a partition are kept here as the offsets, epochs and checksums of their batches. Only what has
changed since the last look is compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from penstock.log.partition_log import PartitionLog
from penstock.protocol.record_batch import parse_header
from penstock.protocol.records import read_records
from tests.simulation.cluster.consumers import batches_in
from tests.simulation.cluster.truth import Truth
from tests.simulation.cluster.world import SimulationFault

if TYPE_CHECKING:
    from penstock.broker.partition import Partition
    from tests.simulation.cluster.broker import Broker

Key = tuple[bytes, int]
_READ_BYTES = 1 << 20


class Batch(NamedTuple):
    base_offset: int
    end_offset: int
    leader_epoch: int
    crc: int


class Committed:
    """The committed batches of one partition."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.batches: list[Batch] = []

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end_offset if self.batches else 0


class Replica:
    """What was seen of one replica of one incarnation of a broker."""

    __slots__ = ("high_watermark", "seen", "verified")

    def __init__(self) -> None:
        self.seen: tuple[int, int, int, bool] | None = None
        self.verified = 0  # the number of committed batches that it was found to hold
        self.high_watermark = 0


class Invariants:
    def __init__(self, truth: Truth) -> None:
        self._truth = truth
        self._leaders: dict[tuple[bytes, int, int], int] = {}
        self._committed: dict[Key, Committed] = {}
        self._replicas: dict[Partition, Replica] = {}
        self._checked: tuple[int, int] = (-1, -1)
        self._growth = 0

    def check(self, touched: Broker, brokers: list[Broker]) -> None:
        """`touched` may have changed since the last look."""
        self._check_session(touched)
        changed = [partition for partition in touched.replicas() if self._has_changed(partition)]
        for partition in changed:
            if partition.is_leader:
                self._check_leader(touched, partition)
            self._take_committed(touched, partition)
            self._check_replica(touched, partition)
        state = (self._truth.version, self._growth)
        if state != self._checked or changed:
            self._checked = state
            self._check_holders(brokers)

    def check_equal(self, brokers: list[Broker]) -> None:
        """At the end: all replicas of a partition are the same, to their last byte."""
        for name, topic_id, image in self._truth.partitions():
            logs = {
                broker.broker_id: partition
                for broker in brokers
                for partition in broker.replicas()
                if partition.topic_id == topic_id and partition.index == image.index
            }
            if set(logs) != set(image.replicas):
                raise SimulationFault(f"{name}-{image.index} is on {sorted(logs)}, and belongs on {image.replicas}")
            contents = {
                broker: tuple(batches_of(each.log, 0, each.log.log_end_offset)) for broker, each in logs.items()
            }
            if len(set(contents.values())) > 1:
                raise SimulationFault(f"the replicas of {name}-{image.index} differ: {contents}")

    def is_settled(self, brokers: list[Broker]) -> bool:
        """Whether all replicas are in sync and have the same end and high watermark."""
        ends: dict[Key, set[tuple[int, int]]] = {}
        count = 0
        for broker in brokers:
            for partition in broker.replicas():
                count += 1
                ends.setdefault((partition.topic_id, partition.index), set()).add(
                    (partition.log.log_end_offset, partition.high_watermark)
                )
        expected = 0
        for _, topic_id, image in self._truth.partitions():
            expected += len(image.replicas)
            if image.adding or image.removing or set(image.isr) != set(image.replicas) or image.leader < 0:
                return False
            of_partition = ends.get((topic_id, image.index), set())
            if len(of_partition) != 1 or any(end != high_watermark for end, high_watermark in of_partition):
                return False
        return count == expected

    def _check_session(self, broker: Broker) -> None:
        process = broker.process
        if process is None or not process.acts or process.node.is_fenced:
            return
        registered = self._truth.image.brokers.get(broker.broker_id)
        if registered is None or registered.epoch != process.node.broker_epoch:
            raise SimulationFault(f"{broker} acts in the epoch {process.node.broker_epoch}, which has ended")

    def _has_changed(self, partition: Partition) -> bool:
        replica = self._replicas.get(partition)
        if replica is None:
            replica = self._replicas[partition] = Replica()
        seen = (
            partition.log.log_end_offset,
            partition.high_watermark,
            partition.leader_epoch,
            partition.is_leader,
        )
        if seen == replica.seen:
            return False
        replica.seen = seen
        return True

    def _check_leader(self, broker: Broker, partition: Partition) -> None:
        key = (partition.topic_id, partition.index)
        leader = self._leaders.setdefault((*key, partition.leader_epoch), broker.broker_id)
        if leader != broker.broker_id:
            raise SimulationFault(
                f"{partition} has two leaders in epoch {partition.leader_epoch}: {leader} and {broker.broker_id}"
            )

    def _take_committed(self, broker: Broker, partition: Partition) -> None:
        """What is below a high watermark is committed, whoever says so; all holders are looked at then."""
        key = (partition.topic_id, partition.index)
        committed = self._committed.get(key)
        if committed is None:
            committed = self._committed[key] = Committed(f"{partition}")
        if partition.high_watermark > committed.end_offset:
            start = committed.end_offset
            committed.batches.extend(batches_of(partition.log, start, partition.high_watermark))
            self._growth += 1
            if committed.end_offset != partition.high_watermark:
                raise SimulationFault(
                    f"{partition} of {broker}: the high watermark {partition.high_watermark} is no end of a batch, "
                    f"after {start}: {committed.batches[-3:]}"
                )

    def _check_replica(self, broker: Broker, partition: Partition) -> None:
        committed = self._committed.get((partition.topic_id, partition.index))
        replica = self._replicas[partition]
        if partition.high_watermark < replica.high_watermark:
            raise SimulationFault(
                f"{partition} of {broker}: the high watermark went back from {replica.high_watermark} to "
                f"{partition.high_watermark}"
            )
        replica.high_watermark = partition.high_watermark
        if partition.high_watermark > partition.log.log_end_offset:
            raise SimulationFault(f"{partition} of {broker} ends before its high watermark")
        if committed is not None:
            self._verify(broker, partition, committed, partition.high_watermark)

    def _check_holders(self, brokers: list[Broker]) -> None:
        ends = {broker.broker_id: broker.end_offsets() for broker in brokers}
        live = {
            (broker.broker_id, partition.topic_id, partition.index): (broker, partition)
            for broker in brokers
            for partition in broker.replicas()
        }
        for (topic_id, index), committed in self._committed.items():
            for broker_id in self._truth.holders(topic_id, index):
                broker = next(each for each in brokers if each.broker_id == broker_id)
                if broker.has_lost_records:
                    continue  # its next registration removes it
                end_offset = ends[broker_id].get((topic_id, index))
                if end_offset is None:
                    if committed.end_offset and broker.is_serving:
                        raise SimulationFault(f"{committed.name}: {broker} is in sync and has no log")
                    continue
                if end_offset < committed.end_offset:
                    raise SimulationFault(
                        f"{committed.name}: {broker} is in sync or eligible and holds records up to {end_offset}; "
                        f"those up to {committed.end_offset} are committed"
                    )
                if (broker_id, topic_id, index) in live:
                    self._verify(*live[broker_id, topic_id, index], committed, committed.end_offset)

    def _verify(self, broker: Broker, partition: Partition, committed: Committed, end_offset: int) -> None:
        """The replica holds the committed batches up to an offset."""
        replica, batches = self._replicas[partition], committed.batches
        while replica.verified and batches[replica.verified - 1].end_offset > partition.log.log_end_offset:
            replica.verified -= 1  # it was truncated, and holds others than before
        start = batches[replica.verified - 1].end_offset if replica.verified else 0
        if start >= end_offset:
            return
        for found in batches_of(partition.log, start, end_offset):
            expected = batches[replica.verified]
            if found != expected:
                raise SimulationFault(f"{partition} of {broker} holds {found}, and {expected} is committed")
            replica.verified += 1


def batches_of(log: PartitionLog, start: int, end_offset: int) -> Iterator[Batch]:
    """The batches of a log between two offsets."""
    while start < end_offset:
        found = log.read(start, _READ_BYTES, end_offset, at_least_one_batch=True)
        if found is None or not found.size:
            return
        for header, batch in batches_in(found.read()):
            if header.base_offset >= start:
                yield Batch(
                    header.base_offset, header.end_offset, parse_header(batch).partition_leader_epoch, header.crc
                )
                start = header.end_offset


def values_of(log: PartitionLog) -> Iterator[tuple[int, bytes]]:
    """The data records of a log, by offset."""
    start = 0
    while start < log.log_end_offset:
        found = log.read(start, _READ_BYTES, log.log_end_offset, at_least_one_batch=True)
        if found is None or not found.size:
            return
        for header, batch in batches_in(found.read()):
            start = header.end_offset
            if not header.is_control:
                for record in read_records(batch, header, _READ_BYTES):
                    yield record.offset, bytes(record.value or b"")

"""The leader's side of a follower's fetch: who asks, what it may read, and what its fetch says of its progress.

A follower reads up to the end of the log. That it fetches from an offset says that it holds everything before it; this
moves the high watermark, and may make it an in-sync replica. It is told at once of a higher high watermark than it
knows (KIP-392, KIP-1166).

Must not know: sessions, waiting, responses (`handlers/fetch.py`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.broker.fetch_session import FetchPosition, PartitionKey
from penstock.core.ids import BrokerId
from penstock.protocol.error_codes import BrokerError, ErrorCode

if TYPE_CHECKING:
    from penstock.broker.node import Node
    from penstock.broker.partition import Partition
    from penstock.log.reader import LogSlice
    from penstock.protocol.definitions.fetch import FetchPartition, FetchRequest


class ReplicaPosition(FetchPosition):
    """With what only a follower tells of itself."""

    __slots__ = ("high_watermark", "log_start_offset")

    def __init__(self, key: PartitionKey, asked: FetchPartition) -> None:
        super().__init__(
            key, asked.fetch_offset, asked.partition_max_bytes, asked.current_leader_epoch, asked.last_fetched_epoch
        )
        self.log_start_offset = asked.log_start_offset
        self.high_watermark = asked.high_watermark

    def take(self, newer: FetchPosition) -> None:
        super().take(newer)
        if isinstance(newer, ReplicaPosition):
            self.log_start_offset = newer.log_start_offset
            self.high_watermark = newer.high_watermark
            # An answer may have met a follower that could not use it. What it knows now is what it says.
            self.told_high_watermark = newer.high_watermark
            self.told_log_start_offset = newer.log_start_offset


class FollowerFetch:
    """One fetch of one follower."""

    def __init__(self, node: Node, broker_id: BrokerId, broker_epoch: int) -> None:
        self._node = node
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self.is_first_look = True
        """Later looks of a parked fetch find other records, and learn nothing of the follower."""
        self.has_news = False
        """Whether a partition has a higher high watermark than the follower knows."""

    @classmethod
    def of(cls, request: FetchRequest, node: Node) -> FollowerFetch | None:
        """None for a consumer."""
        state = request.replica_state
        broker_id = request.replica_id if state is None else state.replica_id
        broker_epoch = -1 if state is None else state.replica_epoch
        return cls(node, BrokerId(broker_id), broker_epoch) if broker_id >= 0 else None

    def position(self, key: PartitionKey, asked: FetchPartition) -> FetchPosition:
        return ReplicaPosition(key, asked)

    def read(self, partition: Partition, position: FetchPosition, bytes_max: int, first: bool) -> LogSlice | None:
        """Records from the position on. Raises BrokerError where the follower cannot continue from there."""
        leader = partition.leader
        if leader is None or leader.progress_of(self._broker_id) is None:
            raise BrokerError(
                ErrorCode.NOT_LEADER_OR_FOLLOWER, f"Broker {self._broker_id} has no replica of {partition}."
            )
        records = partition.read_as_replica(position.fetch_offset, bytes_max, first)
        if self.is_first_look:
            self._note(partition, position)
        if isinstance(position, ReplicaPosition):
            # Never more than it holds: it could not use the rest.
            self.has_news |= min(partition.high_watermark, position.fetch_offset) > position.high_watermark
        return records

    def _note(self, partition: Partition, position: FetchPosition) -> None:
        if self._broker_epoch > self._node.image.last_broker_epoch:
            return  # Its registration has not arrived here yet: what it says cannot be compared.
        partition.follower_fetched(
            self._broker_id,
            position.fetch_offset,
            self._node.clock.monotonic_ms(),
            self._broker_epoch,
            position.log_start_offset if isinstance(position, ReplicaPosition) else -1,
        )
        leader, replication = partition.leader, self._node.replication
        if replication is not None and leader is not None and leader.may_join(self._broker_id):
            replication.in_sync.follower_caught_up(partition, self._broker_id)

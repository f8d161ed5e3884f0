"""Which of this broker's replicas follow which leader, and the fetchers that do it.

Built when the first replica follows, so that a broker without any pays nothing for it. Must not know how a fetch is
made (`replica_fetcher.py`).

Invariant: a replica is with the fetcher of its leader, and with no other; one that leads, is offline, deleted or
without a leader is with none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from penstock.broker.replication.replica_fetcher import ReplicaFetcher
from penstock.core.ids import NO_LEADER
from penstock.replication.roles import FollowerState

if TYPE_CHECKING:
    from penstock.broker.node import Node
    from penstock.broker.partition import Partition
    from penstock.core.ids import BrokerId


class ReplicaFetchers:
    """Belongs to the event loop."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._fetchers: dict[tuple[BrokerId, int], ReplicaFetcher] = {}
        self._fetcher_of: dict[Partition, ReplicaFetcher] = {}

    def follow(self, partition: Partition) -> None:
        """The replica's role, leader or state has changed."""
        before = self._fetcher_of.pop(partition, None)
        if before is not None:
            before.remove(partition)
        role = partition.role
        if not isinstance(role, FollowerState) or role.leader == NO_LEADER:
            return
        if partition.is_deleted or partition.offline_reason is not None or self._node.tasks.is_closed:
            return
        fetcher = self._fetcher(role.leader, partition)
        self._fetcher_of[partition] = fetcher
        fetcher.add(partition)

    def leave(self, partition: Partition) -> None:
        """The replica is no longer one of this broker's."""
        fetcher = self._fetcher_of.pop(partition, None)
        if fetcher is not None:
            fetcher.remove(partition)

    def retry_now(self, broker_id: BrokerId) -> None:
        """The leader may be reachable again."""
        for (leader, _), fetcher in self._fetchers.items():
            if leader == broker_id:
                fetcher.retry_now()

    def _fetcher(self, leader: BrokerId, partition: Partition) -> ReplicaFetcher:
        number = crc32(partition.topic_id) + partition.index
        key = (leader, number % self._node.config.num_replica_fetchers)
        fetcher = self._fetchers.get(key)
        if fetcher is None:
            lane = f"fetcher-{key[1]}"
            fetcher = self._fetchers[key] = ReplicaFetcher(self._node, leader, lane)
            self._node.tasks.start(f"{lane} of broker {leader}", fetcher.run())
        return fetcher

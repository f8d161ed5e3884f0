"""Replication of one broker: what follows, what is followed, and who is in sync.

Built where the metadata is shared with other brokers; a broker that is alone has none, and imports nothing of it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock.broker.controller import ControllerWatch
from penstock.broker.replication.fetchers import ReplicaFetchers
from penstock.broker.replication.in_sync_proposals import InSyncProposals
from penstock.broker.replication.read_replicas import replica_selector

if TYPE_CHECKING:
    from penstock.broker.node import Node
    from penstock.broker.partition import Partition
    from penstock.core.ids import BrokerId


class Replication:
    """Belongs to the event loop; nothing of it outlives the tasks of its node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._fetchers = ReplicaFetchers(node)
        self.in_sync = InSyncProposals(node)
        self.selector = replica_selector(node)
        self._controller = ControllerWatch(node)
        self.image_changed = asyncio.Event()
        """Set with every committed change."""

    def start(self) -> None:
        for partition in self._node.topics.replicas():
            self._fetchers.follow(partition)
        self._node.tasks.start("in-sync replicas", self.in_sync.watch_lag())
        self._node.tasks.start("controller", self._controller.run())
        self._node.tasks.start("balance of leaders", self._controller.balance())

    def changed(self) -> None:
        """A change of the metadata was committed and carried out."""
        self.image_changed.set()
        self._controller.image_changed()

    def role_changed(self, partition: Partition) -> None:
        """A replica was opened, or follows or leads in another epoch."""
        self._fetchers.follow(partition)

    def replica_closed(self, partition: Partition) -> None:
        self._fetchers.leave(partition)

    def broker_registered(self, broker_id: BrokerId) -> None:
        """It may be reachable again: what waits for the next attempt does not wait any longer."""
        if broker_id != self._node.broker_id:
            self._node.peers.retry_now(broker_id)
            self._fetchers.retry_now(broker_id)

    def broker_gone(self, broker_id: BrokerId) -> None:
        """What was asked of it is not waited for."""
        if broker_id != self._node.broker_id:
            self._node.peers.disconnect(broker_id)

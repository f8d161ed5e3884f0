"""The cluster's metadata as the key-value store has committed it, whether any broker has heard of it or not."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.core.ids import BrokerId
from penstock.metadata.changes import BrokerGone, BrokerRegistered, ControllerElected, PartitionChanged, PartitionImage
from penstock.metadata.cluster_log import ClusterKeys, decode_entry
from penstock.metadata.image import ClusterImage
from penstock.metadata.key_value_store import WatchedChanges
from tests.simulation.cluster.world import World


class Truth:
    """`image` is that of the newest revision."""

    def __init__(self, world: World, prefix: str) -> None:
        self.world = world
        self.keys = ClusterKeys(prefix)
        self.image = ClusterImage("the cluster")
        self.version = 0

    def committed(self, committed: WatchedChanges) -> None:
        for change in committed.changes:
            if change.key.startswith(self.keys.log) and change.value is not None:
                for each in decode_entry(change.key, change.value).changes:
                    self._note(each)
                    self.image.apply(each)
            elif change.value is None and (broker_id := self.keys.broker_id(change.key)) is not None:
                broker = self.image.brokers.get(broker_id)
                if broker is not None:
                    self.world.note(f"metadata: broker {broker_id} is gone")
                    self.image.apply(BrokerGone(broker_id, broker.epoch))
        self.version += 1

    def partitions(self) -> Iterator[tuple[str, bytes, PartitionImage]]:
        for topic in self.image.topics.values():
            for partition in topic.partitions:
                yield topic.name, topic.topic_id, partition

    def holders(self, topic_id: bytes, index: int) -> frozenset[BrokerId]:
        """The replicas that must hold every committed record: those in sync, and eligible leader replicas."""
        topic = self.image.topics_by_id.get(topic_id)  # type: ignore[call-overload]
        if topic is None or index >= len(topic.partitions):
            return frozenset()
        partition = topic.partitions[index]
        return frozenset((*partition.isr, *partition.elr))

    def _note(self, change: object) -> None:
        match change:
            case PartitionChanged(topic_id, partition):
                topic = self.image.topics_by_id[topic_id]
                self.world.note(
                    f"metadata: {topic.name}-{partition.index} leader {partition.leader} epoch "
                    f"{partition.leader_epoch} isr {partition.isr} elr {partition.elr} last "
                    f"{partition.last_known_leader} replicas {partition.replicas} "
                    f"+{partition.adding} -{partition.removing}"
                )
            case BrokerRegistered(broker):
                self.world.note(f"metadata: broker {broker.broker_id} registered with epoch {broker.epoch}")
            case ControllerElected(broker_id, epoch):
                self.world.note(f"metadata: controller {broker_id} epoch {epoch}")
            case _:
                self.world.note(f"metadata: {type(change).__name__}")

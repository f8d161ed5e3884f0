"""What the controller owes to a state of the cluster: leaders, in-sync and eligible replicas, ends of reassignments.

Level-triggered: it looks at the state and never at what happened, so that a change which was lost, refused or made by
an earlier controller makes no difference. Two looks at one state decide the same, and what they decide leaves nothing
to decide.

Must not know: leases, timers, how a proposal is committed. `broker/controller.py` looks when something has changed.
"""

from __future__ import annotations

from typing import Final

from penstock.core.ids import NO_LEADER, BrokerId, TopicId
from penstock.metadata.changes import ControllerElected, PartitionChanged, PartitionImage, TopicImage
from penstock.metadata.image import ClusterImage
from penstock.metadata.partition_state import LiveBrokers, ReplicationRules
from penstock.metadata.reassignment import settled
from penstock.metadata.topic_config import TopicConfig
from penstock.protocol.error_codes import BrokerError, ErrorCode

PARTITIONS_PER_LOOK_MAX: Final = 1000
"""The rest is for the next look: a proposal must not outgrow what a store commits at once."""


def decide_candidacy(image: ClusterImage, broker_id: BrokerId) -> list[ControllerElected]:
    """The broker becomes the controller where there is none. A broker that is shutting down leaves it to others."""
    if image.controller != NO_LEADER or broker_id not in image.brokers:
        return []
    if image.active_brokers and broker_id not in image.active_brokers:
        return []
    return [ControllerElected(broker_id, image.controller_epoch + 1)]


def check_controller(image: ClusterImage, broker_id: BrokerId) -> None:
    if image.controller != broker_id:
        raise BrokerError(ErrorCode.NOT_CONTROLLER, f"Broker {broker_id} is no longer the controller.")


class Controller:
    """The partitions' care. It remembers only which topics asked for nothing, so that a look costs what has changed."""

    __slots__ = ("_brokers", "_cared_for", "_inherited")

    def __init__(self) -> None:
        self._brokers: LiveBrokers | None = None
        self._inherited: TopicConfig | None = None
        self._cared_for: dict[TopicId, TopicImage] = {}

    def decide(self, image: ClusterImage, broker_id: BrokerId, inherited: TopicConfig) -> list[PartitionChanged]:
        """The next states of the partitions that need one. NOT_CONTROLLER where another broker is the controller."""
        check_controller(image, broker_id)
        brokers = LiveBrokers.of(image)
        if (brokers, inherited) != (self._brokers, self._inherited):
            self._brokers, self._inherited, self._cared_for = brokers, inherited, {}
        changes: list[PartitionChanged] = []
        cared_for: dict[TopicId, TopicImage] = {}
        for topic_id, topic in image.topics_by_id.items():
            if self._cared_for.get(topic_id) is not topic:
                needed = self._changes_of(topic, brokers, inherited)
                if needed:
                    changes += needed
                    if len(changes) >= PARTITIONS_PER_LOOK_MAX:
                        return changes[:PARTITIONS_PER_LOOK_MAX]
                    continue
            cared_for[topic_id] = topic
        self._cared_for = cared_for
        return changes

    @staticmethod
    def _changes_of(topic: TopicImage, brokers: LiveBrokers, inherited: TopicConfig) -> list[PartitionChanged]:
        troubled = [partition for partition in topic.partitions if not _is_well(partition, brokers)]
        if not troubled:
            return []
        rules = ReplicationRules.of(topic, inherited)
        states = (settled(partition, brokers, rules) for partition in troubled)
        return [PartitionChanged(topic.topic_id, after) for after in states if after is not None]


def _is_well(partition: PartitionImage, brokers: LiveBrokers) -> bool:
    """Whether nothing needs to be computed: the usual case."""
    return (
        partition.leader != NO_LEADER
        and not partition.elr
        and not partition.adding
        and not partition.removing
        and brokers.active.issuperset(partition.isr)
    )

"""Brokers come and go: registration, controlled shutdown, and leaving the cluster for good.

A broker whose last run ended uncleanly may have lost records that it had acknowledged to a leader. It leaves every set
of replicas that are relied upon before it can be live again: in the proposal that registers it, or, where these are too
many changes for one proposal, in proposals before.

Must not know: how a store notices that a broker is gone, endpoints, time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from penstock.core.ids import BrokerId
from penstock.metadata.changes import (
    BrokerImage,
    BrokerRegistered,
    BrokerShuttingDown,
    BrokerUnregistered,
    Change,
    PartitionChanged,
    PartitionImage,
)
from penstock.metadata.image import ClusterImage
from penstock.metadata.partition_state import LiveBrokers, ReplicationRules, next_state
from penstock.metadata.topic_config import TopicConfig
from penstock.protocol.error_codes import BrokerError, ErrorCode

PARTITIONS_PER_PROPOSAL_MAX: Final = 1000
"""What a store must be able to commit at once."""


def decide_registration(
    image: ClusterImage, broker: BrokerImage, clean_shutdown_epoch: int | None, inherited: TopicConfig
) -> list[Change]:
    """The broker's registration in a new epoch, and what follows from an unclean end of its last run.

    `clean_shutdown_epoch` is the broker epoch in the marker that a clean stop left, if there is one. The result may be
    without a registration (`is_registered` tells): the caller then proposes again.
    """
    live = image.brokers.get(broker.broker_id)
    if live is not None and live.incarnation != broker.incarnation:
        raise BrokerError(
            ErrorCode.DUPLICATE_BROKER_REGISTRATION, f"The node id {broker.broker_id} is in use by a live broker."
        )
    known = image.known_brokers.get(broker.broker_id)
    same_process = known is not None and known.incarnation == broker.incarnation
    is_clean = same_process or (known is not None and known.epoch == clean_shutdown_epoch)
    registered = BrokerRegistered(replace(broker, epoch=image.last_broker_epoch + 1, is_shutting_down=False))
    if is_clean:
        return [registered]
    brokers = LiveBrokers.of(image)
    removals = list(_without(image, broker.broker_id, brokers.with_active(broker.broker_id), inherited))
    if len(removals) <= PARTITIONS_PER_PROPOSAL_MAX:
        return [registered, *removals]
    # Computed once more: a broker that is not registered yet must not be elected.
    return list(islice(_without(image, broker.broker_id, brokers, inherited), PARTITIONS_PER_PROPOSAL_MAX))


def is_registered(image: ClusterImage, broker_id: BrokerId, incarnation: bytes) -> bool:
    broker = image.brokers.get(broker_id)
    return broker is not None and broker.incarnation == incarnation


def decide_shutdown(image: ClusterImage, broker_id: BrokerId, epoch: int, inherited: TopicConfig) -> list[Change]:
    """The begin of a controlled shutdown, with new leaders for what the broker leads, or the first of them.

    The controller finds leaders for the rest. `may_stop` tells when the broker is no longer needed.
    """
    broker = image.brokers.get(broker_id)
    if broker is None or broker.epoch != epoch:
        raise BrokerError(ErrorCode.STALE_BROKER_EPOCH, f"Broker {broker_id} is not registered in the epoch {epoch}.")
    brokers = LiveBrokers.of(image).with_shutting_down(broker_id)
    changes: list[Change] = [] if broker.is_shutting_down else [BrokerShuttingDown(broker_id, epoch)]
    for topic in image.topics.values():
        rules = None
        for partition in topic.partitions:
            if broker_id in partition.isr:
                rules = rules or ReplicationRules.of(topic, inherited)
                after = next_state(partition, brokers, rules)
                if after is not None:
                    changes.append(PartitionChanged(topic.topic_id, after))
                    if len(changes) > PARTITIONS_PER_PROPOSAL_MAX:
                        return changes
    return changes


def may_stop(image: ClusterImage, broker_id: BrokerId) -> bool:
    """Whether the broker leads no partition that another in-sync replica could lead instead."""
    active = image.active_brokers - {broker_id}
    return not any(
        partition.leader == broker_id and not active.isdisjoint(partition.isr)
        for topic in image.topics.values()
        for partition in topic.partitions
    )


def decide_unregistration(image: ClusterImage, broker_id: BrokerId, inherited: TopicConfig) -> list[Change]:
    """The broker leaves the cluster, and nothing waits for it any more. Its replicas stay assigned to it.

    The result may be without the end of the registration: the caller then proposes again.
    """
    if broker_id not in image.known_brokers:
        raise BrokerError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"There is no broker {broker_id}.")
    if broker_id in image.brokers:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"Broker {broker_id} is running; stop it, then unregister it.")
    removals = list(_without(image, broker_id, LiveBrokers.of(image), inherited))
    if len(removals) <= PARTITIONS_PER_PROPOSAL_MAX:
        return [*removals, BrokerUnregistered(broker_id)]
    return list(removals[:PARTITIONS_PER_PROPOSAL_MAX])


def _without(
    image: ClusterImage, broker_id: BrokerId, brokers: LiveBrokers, inherited: TopicConfig
) -> Iterator[PartitionChanged]:
    """The partitions whose state relies on the broker's replica, without it."""
    for topic in image.topics.values():
        rules = None
        for partition in topic.partitions:
            if _relies_on(partition, broker_id):
                rules = rules or ReplicationRules.of(topic, inherited)
                after = next_state(partition, brokers, rules, unclean_ends=(broker_id,))
                if after is not None:
                    yield PartitionChanged(topic.topic_id, after)


def _relies_on(partition: PartitionImage, broker_id: BrokerId) -> bool:
    return broker_id in partition.isr or broker_id in partition.elr

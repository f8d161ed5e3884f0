"""Reassignments: the replicas of a partition move to other brokers (KIP-455).

While a partition is reassigned its replicas are the targets, then those that will be removed. It is complete when every
target is in sync. A cancelled one returns to the replicas that it began with.

Must not know: requests, how replicas are copied, time.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from penstock.core.ids import BrokerId, TopicName
from penstock.metadata.changes import PartitionChanged, PartitionImage
from penstock.metadata.image import ClusterImage
from penstock.metadata.partition_state import LiveBrokers, ReplicationRules, next_state
from penstock.metadata.topic_config import TopicConfig
from penstock.protocol.error_codes import BrokerError, ErrorCode


def decide_reassignment(
    image: ClusterImage,
    name: TopicName,
    index: int,
    targets: Sequence[int] | None,
    inherited: TopicConfig,
    *,
    may_resize: bool = True,
) -> PartitionChanged | None:
    """Begins a reassignment, replaces a running one, or with None cancels it. None if the partition stays as it is."""
    topic = image.topics.get(name)
    if topic is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {name[:300]!r}.")
    if not 0 <= index < len(topic.partitions):
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic {name!r} has no partition {index}.")
    before = topic.partitions[index]
    rules, brokers = ReplicationRules.of(topic, inherited), LiveBrokers.of(image)
    if targets is None:
        wanted = _cancelled(before, rules, brokers)
    else:
        _check_targets(image, before, targets, may_resize=may_resize)
        wanted = _begun(before, tuple(BrokerId(target) for target in targets), brokers)
    after = settled(before, brokers, rules, wanted=wanted)
    return None if after is None else PartitionChanged(topic.topic_id, after)


def settled(
    before: PartitionImage, brokers: LiveBrokers, rules: ReplicationRules, *, wanted: PartitionImage | None = None
) -> PartitionImage | None:
    """The next state, with its reassignment completed where it can be."""
    after = next_state(before, brokers, rules, wanted=wanted)
    now = before if after is None else after
    completed = _completed(now)
    if completed is None:
        return after
    after = next_state(before, brokers, rules, wanted=completed)
    assert after is not None, "a reassignment ends"
    return after


def _begun(before: PartitionImage, targets: tuple[BrokerId, ...], brokers: LiveBrokers) -> PartitionImage:
    """Replicas that an earlier reassignment began to add, and this one does not want, go at once where they may."""
    original = _original(before)
    unwanted = set(before.adding) - set(targets)
    if not _can_do_without(before, unwanted, brokers):
        unwanted = set()
    removing = tuple(replica for replica in before.replicas if replica not in targets and replica not in unwanted)
    return replace(
        before,
        isr=tuple(replica for replica in before.isr if replica not in unwanted),
        replicas=targets + removing,
        adding=tuple(target for target in targets if target not in original),
        removing=removing,
    )


def _cancelled(before: PartitionImage, rules: ReplicationRules, brokers: LiveBrokers) -> PartitionImage:
    if not before.adding and not before.removing:
        raise BrokerError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    if not _can_do_without(before, before.adding, brokers) and not rules.unclean_leader_election:
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            "None of the replicas that the partition had before the reassignment is in sync; it cannot be cancelled.",
        )
    original = _original(before)
    isr = tuple(replica for replica in before.isr if replica in original)
    return replace(before, replicas=original, isr=isr, adding=(), removing=())


def _can_do_without(partition: PartitionImage, replicas: Collection[BrokerId], brokers: LiveBrokers) -> bool:
    """Whether another live replica is in sync, or another one is eligible where none is."""
    complete = [replica for replica in partition.isr if replica in brokers.live] or partition.isr + partition.elr
    return not complete or any(replica not in replicas for replica in complete)


def _completed(partition: PartitionImage) -> PartitionImage | None:
    """The partition without the replicas that a reassignment removes; None until all targets are in sync."""
    if not partition.adding and not partition.removing:
        return None
    targets = tuple(replica for replica in partition.replicas if replica not in partition.removing)
    if not set(targets) <= set(partition.isr):
        return None
    return replace(partition, replicas=targets, isr=targets, adding=(), removing=())


def _original(partition: PartitionImage) -> tuple[BrokerId, ...]:
    """The replicas before the reassignment, or those of now."""
    return tuple(replica for replica in partition.replicas if replica not in partition.adding)


def _check_targets(image: ClusterImage, before: PartitionImage, targets: Sequence[int], *, may_resize: bool) -> None:
    if not targets:
        raise BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A partition needs at least one replica.")
    if len(set(targets)) != len(targets):
        raise BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "A broker is named more than once.")
    unknown = sorted(set(targets) - image.known_brokers.keys())
    if unknown:
        raise BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"The broker {unknown[0]} is not registered.")
    original = _original(before)
    if not may_resize and len(targets) != len(original):
        raise BrokerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The partition has {len(original)} replicas, and the request allows no other number.",
        )

"""Changes of the in-sync replicas, which the leader of a partition proposes itself.

The leader knows who has caught up, the metadata whether the leader still leads and whether a follower may join. The
decision runs on the newest image, so that none of that can have changed unseen.

Must not know: offsets, fetches, time.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from penstock.core.ids import BrokerId, LeaderEpoch, PartitionIndex, TopicId
from penstock.metadata.changes import PartitionChanged, PartitionImage
from penstock.metadata.image import ClusterImage
from penstock.metadata.partition_state import LiveBrokers, ReplicationRules, next_state
from penstock.metadata.topic_config import TopicConfig
from penstock.protocol.error_codes import BrokerError, ErrorCode


def decide_in_sync(
    image: ClusterImage,
    topic_id: TopicId,
    index: PartitionIndex,
    *,
    leader: BrokerId,
    leader_epoch: LeaderEpoch,
    partition_epoch: int,
    joining: Mapping[BrokerId, int],
    leaving: Collection[BrokerId],
    inherited: TopicConfig,
) -> list[PartitionChanged]:
    """The in-sync replicas with those that join and without those that leave; empty if that changes nothing.

    `joining` has the broker epoch of each follower's fetches (KIP-903). A follower that registered again since may
    have lost what it had fetched.
    """
    topic = image.topics_by_id.get(topic_id)
    if topic is None or not 0 <= index < len(topic.partitions):
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID)
    before = topic.partitions[index]
    if before.leader != leader:
        raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"Broker {leader} does not lead {topic.name}-{index}.")
    if before.leader_epoch != leader_epoch:
        raise BrokerError(
            ErrorCode.FENCED_LEADER_EPOCH, f"{topic.name}-{index} is in the leader epoch {before.leader_epoch}."
        )
    if before.partition_epoch != partition_epoch:
        raise BrokerError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"{topic.name}-{index} is in the partition epoch {before.partition_epoch}.",
        )
    _check_joining(image, before, joining)
    in_sync = tuple(
        replica
        for replica in before.replicas
        if (replica in before.isr or replica in joining) and (replica not in leaving or replica == leader)
    )
    after = next_state(
        before,
        LiveBrokers.of(image),
        ReplicationRules.of(topic, inherited),
        wanted=replace(before, isr=in_sync),
    )
    return [] if after is None else [PartitionChanged(topic_id, after)]


def _check_joining(image: ClusterImage, partition: PartitionImage, joining: Mapping[BrokerId, int]) -> None:
    for replica, epoch in joining.items():
        if replica not in partition.replicas:
            raise BrokerError(ErrorCode.INELIGIBLE_REPLICA, f"Broker {replica} has no replica of the partition.")
        if not may_join(image, replica, epoch):
            raise BrokerError(
                ErrorCode.INELIGIBLE_REPLICA,
                f"Broker {replica} is not live in the broker epoch {epoch}, or is shutting down.",
            )


def may_join(image: ClusterImage, replica: BrokerId, broker_epoch: int) -> bool:
    """Whether a follower that fetches with this broker epoch may become in sync: the leader asks before it proposes."""
    broker = image.brokers.get(replica)
    return broker is not None and broker.epoch == broker_epoch and not broker.is_shutting_down

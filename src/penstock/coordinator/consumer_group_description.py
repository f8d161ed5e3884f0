"""A group as ConsumerGroupDescribe returns it. Topics have names; deleted ones are left out, as in Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from penstock.coordinator.consumer_group_changes import MemberMetadata
from penstock.coordinator.consumer_group_state import ConsumerGroupState, GroupPhase
from penstock.coordinator.topic_partitions import by_topic
from penstock.core.ids import TopicIdPartition


@dataclass(frozen=True, slots=True)
class DescribedTopicPartitions:
    topic_id: bytes
    topic_name: str
    partitions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class DescribedMember:
    metadata: MemberMetadata
    member_epoch: int
    assignment: tuple[DescribedTopicPartitions, ...]
    target_assignment: tuple[DescribedTopicPartitions, ...]


@dataclass(frozen=True, slots=True)
class DescribedGroup:
    group_id: str
    phase: GroupPhase
    group_epoch: int
    assignment_epoch: int
    assignor_name: str
    members: tuple[DescribedMember, ...]


def described_group(
    group_id: str, state: ConsumerGroupState, assignor_name: str, topic_names: Mapping[bytes, str]
) -> DescribedGroup:
    def described(partitions: Iterable[TopicIdPartition]) -> tuple[DescribedTopicPartitions, ...]:
        return tuple(
            DescribedTopicPartitions(topic_id, topic_names[topic_id], indexes)
            for topic_id, indexes in by_topic(partitions)
            if topic_id in topic_names
        )

    members = tuple(
        DescribedMember(
            metadata,
            state.current(member_id).member_epoch,
            described(state.current(member_id).assigned),
            described(state.target_of(member_id)),
        )
        for member_id, metadata in sorted(state.members.items())
    )
    return DescribedGroup(
        group_id, state.phase, state.group.epoch, state.target.assignment_epoch, assignor_name, members
    )

"""Converts changes of a consumer group (KIP-848) to records and back: each change is exactly one record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock.coordinator.classic_messages import MemberProtocol
from penstock.coordinator.consumer_group_changes import (
    ClassicProtocols,
    ConsumerGroupChange,
    CurrentAssignment,
    CurrentAssignmentChanged,
    GroupEpoch,
    GroupEpochChanged,
    MemberMetadata,
    MemberMetadataChanged,
    MemberState,
    TargetAssignmentChanged,
    TargetEpoch,
    TargetEpochChanged,
)
from penstock.coordinator.records.codec import CoordinatorRecord, kind_number
from penstock.coordinator.records.consumer_group import (
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    CONSUMER_GROUP_MEMBER_METADATA,
    CONSUMER_GROUP_METADATA,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    CurrentTopicPartitions,
    TargetTopicPartitions,
)
from penstock.coordinator.topic_partitions import by_topic
from penstock.core.errors import ProtocolError
from penstock.core.ids import TopicIdPartition


def change_record(group_id: str, change: ConsumerGroupChange) -> CoordinatorRecord:
    match change:
        case GroupEpochChanged(value):
            group_key = ConsumerGroupMetadataKey(group_id=group_id)
            if value is None:
                return CONSUMER_GROUP_METADATA.tombstone(group_key)
            return CONSUMER_GROUP_METADATA.record(
                group_key, ConsumerGroupMetadataValue(epoch=value.epoch, metadata_hash=value.metadata_hash)
            )
        case MemberMetadataChanged(member_id, value):
            member_key = ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id)
            if value is None:
                return CONSUMER_GROUP_MEMBER_METADATA.tombstone(member_key)
            return CONSUMER_GROUP_MEMBER_METADATA.record(member_key, _metadata_value(value))
        case TargetEpochChanged(value):
            target_key = ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id)
            if value is None:
                return CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA.tombstone(target_key)
            return CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA.record(
                target_key,
                ConsumerGroupTargetAssignmentMetadataValue(
                    assignment_epoch=value.assignment_epoch, assignment_timestamp=value.assignment_timestamp_ms
                ),
            )
        case TargetAssignmentChanged(member_id, value):
            assignment_key = ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id)
            if value is None:
                return CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER.tombstone(assignment_key)
            return CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER.record(assignment_key, _target_value(value))
        case CurrentAssignmentChanged(member_id, value):
            current_key = ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id)
            if value is None:
                return CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT.tombstone(current_key)
            return CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT.record(current_key, _current_value(value))


CONSUMER_GROUP_KINDS = frozenset(
    {
        CONSUMER_GROUP_METADATA.number,
        CONSUMER_GROUP_MEMBER_METADATA.number,
        CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA.number,
        CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER.number,
        CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT.number,
    }
)


def read_change(key: bytes, value: bytes | None) -> tuple[str, ConsumerGroupChange]:
    """The group id and the change; the key must be of one of `CONSUMER_GROUP_KINDS`."""
    match kind_number(key):
        case CONSUMER_GROUP_METADATA.number:
            group_key = CONSUMER_GROUP_METADATA.read_key(key)
            group_value = None if value is None else CONSUMER_GROUP_METADATA.read_value(value)
            epoch = None if group_value is None else GroupEpoch(group_value.epoch, group_value.metadata_hash)
            return group_key.group_id, GroupEpochChanged(epoch)
        case CONSUMER_GROUP_MEMBER_METADATA.number:
            member_key = CONSUMER_GROUP_MEMBER_METADATA.read_key(key)
            member_value = None if value is None else CONSUMER_GROUP_MEMBER_METADATA.read_value(value)
            metadata = None if member_value is None else _metadata(member_key.member_id, member_value)
            return member_key.group_id, MemberMetadataChanged(member_key.member_id, metadata)
        case CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA.number:
            target_key = CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA.read_key(key)
            target_value = None if value is None else CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA.read_value(value)
            target = None
            if target_value is not None:
                target = TargetEpoch(target_value.assignment_epoch, target_value.assignment_timestamp)
            return target_key.group_id, TargetEpochChanged(target)
        case CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER.number:
            assignment_key = CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER.read_key(key)
            assignment = None
            if value is not None:
                assignment = _partitions(CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER.read_value(value).topic_partitions)
            return assignment_key.group_id, TargetAssignmentChanged(assignment_key.member_id, assignment)
        case CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT.number:
            current_key = CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT.read_key(key)
            current = None
            if value is not None:
                current = _current(CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT.read_value(value))
            return current_key.group_id, CurrentAssignmentChanged(current_key.member_id, current)
        case number:
            raise ProtocolError(f"record type {number} does not belong to a consumer group")


def _metadata_value(metadata: MemberMetadata) -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        instance_id=metadata.instance_id,
        rack_id=metadata.rack_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        subscribed_topic_names=list(metadata.subscribed_topic_names),
        subscribed_topic_regex=metadata.subscribed_topic_regex,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        server_assignor=metadata.server_assignor,
        classic_member_metadata=None if metadata.classic is None else _classic_value(metadata.classic),
    )


def _classic_value(classic: ClassicProtocols) -> ClassicMemberMetadata:
    return ClassicMemberMetadata(
        session_timeout_ms=classic.session_timeout_ms,
        supported_protocols=[
            ClassicProtocol(name=protocol.name, metadata=protocol.metadata) for protocol in classic.protocols
        ],
    )


def _metadata(member_id: str, value: ConsumerGroupMemberMetadataValue) -> MemberMetadata:
    return MemberMetadata(
        member_id=member_id,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=tuple(value.subscribed_topic_names),
        subscribed_topic_regex=value.subscribed_topic_regex,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        server_assignor=value.server_assignor,
        classic=None if value.classic_member_metadata is None else _classic(value.classic_member_metadata),
    )


def _classic(value: ClassicMemberMetadata) -> ClassicProtocols:
    # The record is read from a buffer that is reused.
    protocols = tuple(MemberProtocol(each.name, bytes(each.metadata)) for each in value.supported_protocols)
    return ClassicProtocols(value.session_timeout_ms, protocols)


def _target_value(partitions: frozenset[TopicIdPartition]) -> ConsumerGroupTargetAssignmentMemberValue:
    return ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=[
            TargetTopicPartitions(topic_id=topic_id, partitions=list(indexes))
            for topic_id, indexes in by_topic(partitions)
        ]
    )


def _partitions(topics: Iterable[TargetTopicPartitions]) -> frozenset[TopicIdPartition]:
    return frozenset(TopicIdPartition(topic.topic_id, index) for topic in topics for index in topic.partitions)


def _current_value(current: CurrentAssignment) -> ConsumerGroupCurrentMemberAssignmentValue:
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=current.member_epoch,
        previous_member_epoch=current.previous_member_epoch,
        state=current.state,
        assigned_partitions=_with_epochs(current.assigned),
        partitions_pending_revocation=_with_epochs(current.pending_revocation),
    )


def _with_epochs(partitions: Mapping[TopicIdPartition, int]) -> list[CurrentTopicPartitions]:
    topics: dict[bytes, tuple[list[int], list[int]]] = {}
    for (topic_id, index), epoch in sorted(partitions.items()):
        indexes, epochs = topics.setdefault(topic_id, ([], []))
        indexes.append(index)
        epochs.append(epoch)
    return [
        CurrentTopicPartitions(topic_id=topic_id, partitions=indexes, assignment_epochs=epochs)
        for topic_id, (indexes, epochs) in topics.items()
    ]


def _current(value: ConsumerGroupCurrentMemberAssignmentValue) -> CurrentAssignment:
    try:
        state = MemberState(value.state)
    except ValueError as error:
        raise ProtocolError(f"the member state {value.state} does not exist") from error
    return CurrentAssignment(
        value.member_epoch,
        value.previous_member_epoch,
        state,
        _epochs(value.assigned_partitions, value.member_epoch),
        _epochs(value.partitions_pending_revocation, value.member_epoch),
    )


def _epochs(topics: Iterable[CurrentTopicPartitions], member_epoch: int) -> dict[TopicIdPartition, int]:
    """Records from before KIP-1251 have no epochs per partition: the member epoch applies."""
    epochs: dict[TopicIdPartition, int] = {}
    for topic in topics:
        known = topic.assignment_epochs
        if known is None or len(known) != len(topic.partitions):
            known = [member_epoch] * len(topic.partitions)
        epochs.update(
            (TopicIdPartition(topic.topic_id, index), epoch)
            for index, epoch in zip(topic.partitions, known, strict=True)
        )
    return epochs

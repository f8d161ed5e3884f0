"""The record types of a consumer group (KIP-848): epoch, members, target assignments, current assignments.

Each part is a separate record, so that a heartbeat writes only what it changed. Two of Kafka's types are omitted: topic
metadata, which 4.1 replaced by a hash (KIP-1101), and resolved patterns, which are resolved again after a restart.
"""

from __future__ import annotations

from typing import Final

from penstock.coordinator.records.codec import RecordKind
from penstock.protocol.schema import BYTES, INT8, INT32, INT64, STRING, UUID, Message, Struct, array_of, wire


class ConsumerGroupMetadataKey(Message, versions=(0, 0)):
    group_id: str = wire(STRING)


class ConsumerGroupMetadataValue(Message, versions=(0, 0), flexible_since=0):
    epoch: int = wire(INT32)
    metadata_hash: int = wire(INT64, tag=0)


class ConsumerGroupMemberMetadataKey(Message, versions=(0, 0)):
    group_id: str = wire(STRING)
    member_id: str = wire(STRING)


class ClassicProtocol(Struct):
    name: str = wire(STRING)
    metadata: bytes = wire(BYTES)


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int = wire(INT32)
    supported_protocols: list[ClassicProtocol] = array_of(ClassicProtocol)


class ConsumerGroupMemberMetadataValue(Message, versions=(0, 0), flexible_since=0):
    instance_id: str | None = wire(STRING, nullable_since=0, default=None)
    rack_id: str | None = wire(STRING, nullable_since=0, default=None)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    subscribed_topic_names: list[str] = array_of(STRING)
    subscribed_topic_regex: str | None = wire(STRING, nullable_since=0, default=None)
    rebalance_timeout_ms: int = wire(INT32, default=-1)
    server_assignor: str | None = wire(STRING, nullable_since=0, default=None)
    classic_member_metadata: ClassicMemberMetadata | None = wire(
        ClassicMemberMetadata, tag=0, nullable_since=0, default=None
    )


class ConsumerGroupTargetAssignmentMetadataKey(Message, versions=(0, 0)):
    group_id: str = wire(STRING)


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions=(0, 0), flexible_since=0):
    assignment_epoch: int = wire(INT32)
    assignment_timestamp: int = wire(INT64, tag=0)


class ConsumerGroupTargetAssignmentMemberKey(Message, versions=(0, 0)):
    group_id: str = wire(STRING)
    member_id: str = wire(STRING)


class TargetTopicPartitions(Struct):
    topic_id: bytes = wire(UUID)
    partitions: list[int] = array_of(INT32)


class ConsumerGroupTargetAssignmentMemberValue(Message, versions=(0, 0), flexible_since=0):
    topic_partitions: list[TargetTopicPartitions] = array_of(TargetTopicPartitions)


class ConsumerGroupCurrentMemberAssignmentKey(Message, versions=(0, 0)):
    group_id: str = wire(STRING)
    member_id: str = wire(STRING)


class CurrentTopicPartitions(Struct):
    topic_id: bytes = wire(UUID)
    partitions: list[int] = array_of(INT32)
    assignment_epochs: list[int] | None = array_of(INT32, nullable_since=0, tag=0, default=None)


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions=(0, 0), flexible_since=0):
    member_epoch: int = wire(INT32)
    previous_member_epoch: int = wire(INT32)
    state: int = wire(INT8)
    assigned_partitions: list[CurrentTopicPartitions] = array_of(CurrentTopicPartitions)
    partitions_pending_revocation: list[CurrentTopicPartitions] = array_of(CurrentTopicPartitions)


CONSUMER_GROUP_METADATA: Final = RecordKind(3, ConsumerGroupMetadataKey, ConsumerGroupMetadataValue, 0)
CONSUMER_GROUP_MEMBER_METADATA: Final = RecordKind(
    5, ConsumerGroupMemberMetadataKey, ConsumerGroupMemberMetadataValue, 0
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: Final = RecordKind(
    6, ConsumerGroupTargetAssignmentMetadataKey, ConsumerGroupTargetAssignmentMetadataValue, 0
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: Final = RecordKind(
    7, ConsumerGroupTargetAssignmentMemberKey, ConsumerGroupTargetAssignmentMemberValue, 0
)
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: Final = RecordKind(
    8, ConsumerGroupCurrentMemberAssignmentKey, ConsumerGroupCurrentMemberAssignmentValue, 0
)

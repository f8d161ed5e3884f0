"""The messages of consumer_group_describe, API key 69. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT8, INT16, INT32, STRING, UUID, Message, Struct, array_of, wire


class ConsumerGroupDescribeRequest(Message, api_key=69, versions=(0, 1), flexible_since=0):
    group_ids: list[str] = array_of(STRING)
    include_authorized_operations: bool = wire(BOOL)


class TopicPartitions(Struct):
    topic_id: bytes = wire(UUID)
    topic_name: str = wire(STRING)
    partitions: list[int] = array_of(INT32)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array_of(TopicPartitions)


class Member(Struct):
    member_id: str = wire(STRING)
    instance_id: str | None = wire(STRING, nullable_since=0, default=None)
    rack_id: str | None = wire(STRING, nullable_since=0, default=None)
    member_epoch: int = wire(INT32)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    subscribed_topic_names: list[str] = array_of(STRING)
    subscribed_topic_regex: str | None = wire(STRING, nullable_since=0, default=None)
    assignment: Assignment = wire(Assignment)
    target_assignment: Assignment = wire(Assignment)
    member_type: int = wire(INT8, since=1, default=-1)


class DescribedGroup(Struct):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    group_id: str = wire(STRING)
    group_state: str = wire(STRING)
    group_epoch: int = wire(INT32)
    assignment_epoch: int = wire(INT32)
    assignor_name: str = wire(STRING)
    members: list[Member] = array_of(Member)
    authorized_operations: int = wire(INT32, default=-2147483648)


class ConsumerGroupDescribeResponse(Message, api_key=69, versions=(0, 1), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    groups: list[DescribedGroup] = array_of(DescribedGroup)

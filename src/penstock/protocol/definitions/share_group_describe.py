"""The messages of share_group_describe, API key 77. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT16, INT32, STRING, UUID, Message, Struct, array_of, wire


class ShareGroupDescribeRequest(Message, api_key=77, versions=(1, 1), flexible_since=1):
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
    rack_id: str | None = wire(STRING, nullable_since=1, default=None)
    member_epoch: int = wire(INT32)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    subscribed_topic_names: list[str] = array_of(STRING)
    assignment: Assignment = wire(Assignment)


class DescribedGroup(Struct):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=1, default=None)
    group_id: str = wire(STRING)
    group_state: str = wire(STRING)
    group_epoch: int = wire(INT32)
    assignment_epoch: int = wire(INT32)
    assignor_name: str = wire(STRING)
    members: list[Member] = array_of(Member)
    authorized_operations: int = wire(INT32, default=-2147483648)


class ShareGroupDescribeResponse(Message, api_key=77, versions=(1, 1), flexible_since=1):
    throttle_time_ms: int = wire(INT32)
    groups: list[DescribedGroup] = array_of(DescribedGroup)

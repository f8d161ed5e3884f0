"""The messages of consumer_group_heartbeat, API key 68. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, STRING, UUID, Message, Struct, array_of, wire


class RequestTopicPartitions(Struct):
    topic_id: bytes = wire(UUID)
    partitions: list[int] = array_of(INT32)


class ConsumerGroupHeartbeatRequest(Message, api_key=68, versions=(0, 1), flexible_since=0):
    group_id: str = wire(STRING)
    member_id: str = wire(STRING)
    member_epoch: int = wire(INT32)
    instance_id: str | None = wire(STRING, nullable_since=0, default=None)
    rack_id: str | None = wire(STRING, nullable_since=0, default=None)
    rebalance_timeout_ms: int = wire(INT32, default=-1)
    subscribed_topic_names: list[str] | None = array_of(STRING, nullable_since=0, default=None)
    subscribed_topic_regex: str | None = wire(STRING, since=1, nullable_since=1, default=None)
    server_assignor: str | None = wire(STRING, nullable_since=0, default=None)
    topic_partitions: list[RequestTopicPartitions] | None = array_of(
        RequestTopicPartitions, nullable_since=0, default=None
    )


class ResponseTopicPartitions(Struct):
    topic_id: bytes = wire(UUID)
    partitions: list[int] = array_of(INT32)


class Assignment(Struct):
    topic_partitions: list[ResponseTopicPartitions] = array_of(ResponseTopicPartitions)


class ConsumerGroupHeartbeatResponse(Message, api_key=68, versions=(0, 1), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    member_id: str | None = wire(STRING, nullable_since=0, default=None)
    member_epoch: int = wire(INT32)
    heartbeat_interval_ms: int = wire(INT32)
    assignment: Assignment | None = wire(Assignment, nullable_since=0, default=None)

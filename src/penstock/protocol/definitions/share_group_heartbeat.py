"""The messages of share_group_heartbeat, API key 76. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, STRING, UUID, Message, Struct, array_of, wire


class ShareGroupHeartbeatRequest(Message, api_key=76, versions=(1, 1), flexible_since=1):
    group_id: str = wire(STRING)
    member_id: str = wire(STRING)
    member_epoch: int = wire(INT32)
    rack_id: str | None = wire(STRING, nullable_since=1, default=None)
    subscribed_topic_names: list[str] | None = array_of(STRING, nullable_since=1, default=None)


class TopicPartitions(Struct):
    topic_id: bytes = wire(UUID)
    partitions: list[int] = array_of(INT32)


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array_of(TopicPartitions)


class ShareGroupHeartbeatResponse(Message, api_key=76, versions=(1, 1), flexible_since=1):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=1, default=None)
    member_id: str | None = wire(STRING, nullable_since=1, default=None)
    member_epoch: int = wire(INT32)
    heartbeat_interval_ms: int = wire(INT32)
    assignment: Assignment | None = wire(Assignment, nullable_since=1, default=None)

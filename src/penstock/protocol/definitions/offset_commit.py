"""The messages of offset_commit, API key 8. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, INT64, STRING, UUID, Message, Struct, array_of, wire


class OffsetCommitRequestPartition(Struct):
    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, since=6, default=-1)
    committed_metadata: str | None = wire(STRING, nullable_since=2, default=None)


class OffsetCommitRequestTopic(Struct):
    name: str = wire(STRING, until=9)
    topic_id: bytes = wire(UUID, since=10)
    partitions: list[OffsetCommitRequestPartition] = array_of(OffsetCommitRequestPartition)


class OffsetCommitRequest(Message, api_key=8, versions=(2, 10), flexible_since=8):
    group_id: str = wire(STRING)
    generation_id_or_member_epoch: int = wire(INT32, default=-1)
    member_id: str = wire(STRING)
    retention_time_ms: int = wire(INT64, until=4, default=-1)
    group_instance_id: str | None = wire(STRING, since=7, nullable_since=7, default=None)
    topics: list[OffsetCommitRequestTopic] = array_of(OffsetCommitRequestTopic)


class OffsetCommitResponsePartition(Struct):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


class OffsetCommitResponseTopic(Struct):
    name: str = wire(STRING, until=9)
    topic_id: bytes = wire(UUID, since=10)
    partitions: list[OffsetCommitResponsePartition] = array_of(OffsetCommitResponsePartition)


class OffsetCommitResponse(Message, api_key=8, versions=(2, 10), flexible_since=8):
    throttle_time_ms: int = wire(INT32, since=3)
    topics: list[OffsetCommitResponseTopic] = array_of(OffsetCommitResponseTopic)

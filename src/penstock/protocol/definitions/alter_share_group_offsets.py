"""The messages of alter_share_group_offsets, API key 91. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, INT64, STRING, UUID, Message, Struct, array_of, wire


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: int = wire(INT32)
    start_offset: int = wire(INT64)


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = wire(STRING)
    partitions: list[AlterShareGroupOffsetsRequestPartition] = array_of(AlterShareGroupOffsetsRequestPartition)


class AlterShareGroupOffsetsRequest(Message, api_key=91, versions=(0, 0), flexible_since=0):
    group_id: str = wire(STRING)
    topics: list[AlterShareGroupOffsetsRequestTopic] = array_of(AlterShareGroupOffsetsRequestTopic)


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = wire(STRING)
    topic_id: bytes = wire(UUID)
    partitions: list[AlterShareGroupOffsetsResponsePartition] = array_of(AlterShareGroupOffsetsResponsePartition)


class AlterShareGroupOffsetsResponse(Message, api_key=91, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic] = array_of(AlterShareGroupOffsetsResponseTopic)

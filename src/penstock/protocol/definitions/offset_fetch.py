"""The messages of offset_fetch, API key 9. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT16, INT32, INT64, STRING, UUID, Message, Struct, array_of, wire


class OffsetFetchRequestTopic(Struct):
    name: str = wire(STRING)
    partition_indexes: list[int] = array_of(INT32)


class OffsetFetchRequestTopics(Struct):
    name: str = wire(STRING, until=9)
    topic_id: bytes = wire(UUID, since=10)
    partition_indexes: list[int] = array_of(INT32)


class OffsetFetchRequestGroup(Struct):
    group_id: str = wire(STRING)
    member_id: str | None = wire(STRING, since=9, nullable_since=9, default=None)
    member_epoch: int = wire(INT32, since=9, default=-1)
    topics: list[OffsetFetchRequestTopics] | None = array_of(OffsetFetchRequestTopics, nullable_since=8, default=None)


class OffsetFetchRequest(Message, api_key=9, versions=(1, 10), flexible_since=6):
    group_id: str = wire(STRING, until=7)
    topics: list[OffsetFetchRequestTopic] | None = array_of(OffsetFetchRequestTopic, until=7, nullable_since=2)
    groups: list[OffsetFetchRequestGroup] = array_of(OffsetFetchRequestGroup, since=8)
    require_stable: bool = wire(BOOL, since=7)


class OffsetFetchResponsePartition(Struct):
    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, since=5, default=-1)
    metadata: str | None = wire(STRING, nullable_since=1, default=None)
    error_code: int = wire(INT16)


class OffsetFetchResponseTopic(Struct):
    name: str = wire(STRING)
    partitions: list[OffsetFetchResponsePartition] = array_of(OffsetFetchResponsePartition)


class OffsetFetchResponsePartitions(Struct):
    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, default=-1)
    metadata: str | None = wire(STRING, nullable_since=8, default=None)
    error_code: int = wire(INT16)


class OffsetFetchResponseTopics(Struct):
    name: str = wire(STRING, until=9)
    topic_id: bytes = wire(UUID, since=10)
    partitions: list[OffsetFetchResponsePartitions] = array_of(OffsetFetchResponsePartitions)


class OffsetFetchResponseGroup(Struct):
    group_id: str = wire(STRING)
    topics: list[OffsetFetchResponseTopics] = array_of(OffsetFetchResponseTopics)
    error_code: int = wire(INT16)


class OffsetFetchResponse(Message, api_key=9, versions=(1, 10), flexible_since=6):
    throttle_time_ms: int = wire(INT32, since=3)
    topics: list[OffsetFetchResponseTopic] = array_of(OffsetFetchResponseTopic, until=7)
    error_code: int = wire(INT16, since=2, until=7)
    groups: list[OffsetFetchResponseGroup] = array_of(OffsetFetchResponseGroup, since=8)

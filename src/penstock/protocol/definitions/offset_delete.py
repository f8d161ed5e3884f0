"""The messages of offset_delete, API key 47. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, STRING, Message, Struct, array_of, wire


class OffsetDeleteRequestPartition(Struct):
    partition_index: int = wire(INT32)


class OffsetDeleteRequestTopic(Struct):
    name: str = wire(STRING)
    partitions: list[OffsetDeleteRequestPartition] = array_of(OffsetDeleteRequestPartition)


class OffsetDeleteRequest(Message, api_key=47, versions=(0, 0)):
    group_id: str = wire(STRING)
    topics: list[OffsetDeleteRequestTopic] = array_of(OffsetDeleteRequestTopic)


class OffsetDeleteResponsePartition(Struct):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


class OffsetDeleteResponseTopic(Struct):
    name: str = wire(STRING)
    partitions: list[OffsetDeleteResponsePartition] = array_of(OffsetDeleteResponsePartition)


class OffsetDeleteResponse(Message, api_key=47, versions=(0, 0)):
    error_code: int = wire(INT16)
    throttle_time_ms: int = wire(INT32)
    topics: list[OffsetDeleteResponseTopic] = array_of(OffsetDeleteResponseTopic)

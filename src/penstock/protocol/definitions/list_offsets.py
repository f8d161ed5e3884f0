"""The messages of list_offsets, API key 2. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT8, INT16, INT32, INT64, STRING, Message, Struct, array_of, wire


class ListOffsetsPartition(Struct):
    partition_index: int = wire(INT32)
    current_leader_epoch: int = wire(INT32, since=4, default=-1)
    timestamp: int = wire(INT64)


class ListOffsetsTopic(Struct):
    name: str = wire(STRING)
    partitions: list[ListOffsetsPartition] = array_of(ListOffsetsPartition)


class ListOffsetsRequest(Message, api_key=2, versions=(1, 11), flexible_since=6):
    replica_id: int = wire(INT32)
    isolation_level: int = wire(INT8, since=2)
    topics: list[ListOffsetsTopic] = array_of(ListOffsetsTopic)
    timeout_ms: int = wire(INT32, since=10)


class ListOffsetsPartitionResponse(Struct):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    timestamp: int = wire(INT64, default=-1)
    offset: int = wire(INT64, default=-1)
    leader_epoch: int = wire(INT32, since=4, default=-1)


class ListOffsetsTopicResponse(Struct):
    name: str = wire(STRING)
    partitions: list[ListOffsetsPartitionResponse] = array_of(ListOffsetsPartitionResponse)


class ListOffsetsResponse(Message, api_key=2, versions=(1, 11), flexible_since=6):
    throttle_time_ms: int = wire(INT32, since=2)
    topics: list[ListOffsetsTopicResponse] = array_of(ListOffsetsTopicResponse)

"""The messages of read_share_group_state, API key 84. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT8, INT16, INT32, INT64, STRING, UUID, Message, Struct, array_of, wire


class PartitionData(Struct):
    partition: int = wire(INT32)
    leader_epoch: int = wire(INT32)


class ReadStateData(Struct):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionData] = array_of(PartitionData)


class ReadShareGroupStateRequest(Message, api_key=84, versions=(0, 0), flexible_since=0):
    group_id: str = wire(STRING)
    topics: list[ReadStateData] = array_of(ReadStateData)


class StateBatch(Struct):
    first_offset: int = wire(INT64)
    last_offset: int = wire(INT64)
    delivery_state: int = wire(INT8)
    delivery_count: int = wire(INT16)


class PartitionResult(Struct):
    partition: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    state_epoch: int = wire(INT32)
    start_offset: int = wire(INT64)
    state_batches: list[StateBatch] = array_of(StateBatch)


class ReadStateResult(Struct):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionResult] = array_of(PartitionResult)


class ReadShareGroupStateResponse(Message, api_key=84, versions=(0, 0), flexible_since=0):
    results: list[ReadStateResult] = array_of(ReadStateResult)

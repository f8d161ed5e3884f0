"""The messages of write_share_group_state, API key 85. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT8, INT16, INT32, INT64, STRING, UUID, Message, Struct, array_of, wire


class StateBatch(Struct):
    first_offset: int = wire(INT64)
    last_offset: int = wire(INT64)
    delivery_state: int = wire(INT8)
    delivery_count: int = wire(INT16)


class PartitionData(Struct):
    partition: int = wire(INT32)
    state_epoch: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    start_offset: int = wire(INT64)
    delivery_complete_count: int = wire(INT32, since=1, default=-1)
    state_batches: list[StateBatch] = array_of(StateBatch)


class WriteStateData(Struct):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionData] = array_of(PartitionData)


class WriteShareGroupStateRequest(Message, api_key=85, versions=(0, 1), flexible_since=0):
    group_id: str = wire(STRING)
    topics: list[WriteStateData] = array_of(WriteStateData)


class PartitionResult(Struct):
    partition: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)


class WriteStateResult(Struct):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionResult] = array_of(PartitionResult)


class WriteShareGroupStateResponse(Message, api_key=85, versions=(0, 1), flexible_since=0):
    results: list[WriteStateResult] = array_of(WriteStateResult)

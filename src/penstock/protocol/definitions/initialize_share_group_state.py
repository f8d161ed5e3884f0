"""The messages of initialize_share_group_state, API key 83. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, INT64, STRING, UUID, Message, Struct, array_of, wire


class PartitionData(Struct):
    partition: int = wire(INT32)
    state_epoch: int = wire(INT32)
    start_offset: int = wire(INT64)


class InitializeStateData(Struct):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionData] = array_of(PartitionData)


class InitializeShareGroupStateRequest(Message, api_key=83, versions=(0, 0), flexible_since=0):
    group_id: str = wire(STRING)
    topics: list[InitializeStateData] = array_of(InitializeStateData)


class PartitionResult(Struct):
    partition: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)


class InitializeStateResult(Struct):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionResult] = array_of(PartitionResult)


class InitializeShareGroupStateResponse(Message, api_key=83, versions=(0, 0), flexible_since=0):
    results: list[InitializeStateResult] = array_of(InitializeStateResult)

"""The messages of read_share_group_state_summary, API key 87. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, INT64, STRING, UUID, Message, Struct, array_of, wire


class PartitionData(Struct):
    partition: int = wire(INT32)
    leader_epoch: int = wire(INT32)


class ReadStateSummaryData(Struct):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionData] = array_of(PartitionData)


class ReadShareGroupStateSummaryRequest(Message, api_key=87, versions=(0, 1), flexible_since=0):
    group_id: str = wire(STRING)
    topics: list[ReadStateSummaryData] = array_of(ReadStateSummaryData)


class PartitionResult(Struct):
    partition: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    state_epoch: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    start_offset: int = wire(INT64)
    delivery_complete_count: int = wire(INT32, since=1, default=-1)


class ReadStateSummaryResult(Struct):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionResult] = array_of(PartitionResult)


class ReadShareGroupStateSummaryResponse(Message, api_key=87, versions=(0, 1), flexible_since=0):
    results: list[ReadStateSummaryResult] = array_of(ReadStateSummaryResult)

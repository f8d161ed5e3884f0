"""The messages of delete_share_group_state, API key 86. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, STRING, UUID, Message, Struct, array_of, wire


class PartitionData(Struct):
    partition: int = wire(INT32)


class DeleteStateData(Struct):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionData] = array_of(PartitionData)


class DeleteShareGroupStateRequest(Message, api_key=86, versions=(0, 0), flexible_since=0):
    group_id: str = wire(STRING)
    topics: list[DeleteStateData] = array_of(DeleteStateData)


class PartitionResult(Struct):
    partition: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)


class DeleteStateResult(Struct):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionResult] = array_of(PartitionResult)


class DeleteShareGroupStateResponse(Message, api_key=86, versions=(0, 0), flexible_since=0):
    results: list[DeleteStateResult] = array_of(DeleteStateResult)

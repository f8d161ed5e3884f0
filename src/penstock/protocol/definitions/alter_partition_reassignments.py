"""The messages of alter_partition_reassignments, API key 45. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT16, INT32, STRING, Message, Struct, array_of, wire


class ReassignablePartition(Struct):
    partition_index: int = wire(INT32)
    replicas: list[int] | None = array_of(INT32, nullable_since=0, default=None)


class ReassignableTopic(Struct):
    name: str = wire(STRING)
    partitions: list[ReassignablePartition] = array_of(ReassignablePartition)


class AlterPartitionReassignmentsRequest(Message, api_key=45, versions=(0, 1), flexible_since=0):
    timeout_ms: int = wire(INT32, default=60000)
    allow_replication_factor_change: bool = wire(BOOL, since=1, default=True)
    topics: list[ReassignableTopic] = array_of(ReassignableTopic)


class ReassignablePartitionResponse(Struct):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)


class ReassignableTopicResponse(Struct):
    name: str = wire(STRING)
    partitions: list[ReassignablePartitionResponse] = array_of(ReassignablePartitionResponse)


class AlterPartitionReassignmentsResponse(Message, api_key=45, versions=(0, 1), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    allow_replication_factor_change: bool = wire(BOOL, since=1, default=True)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    responses: list[ReassignableTopicResponse] = array_of(ReassignableTopicResponse)

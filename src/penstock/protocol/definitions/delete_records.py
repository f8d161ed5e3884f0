"""The messages of delete_records, API key 21. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, INT64, STRING, Message, Struct, array_of, wire


class DeleteRecordsPartition(Struct):
    partition_index: int = wire(INT32)
    offset: int = wire(INT64)


class DeleteRecordsTopic(Struct):
    name: str = wire(STRING)
    partitions: list[DeleteRecordsPartition] = array_of(DeleteRecordsPartition)


class DeleteRecordsRequest(Message, api_key=21, versions=(0, 2), flexible_since=2):
    topics: list[DeleteRecordsTopic] = array_of(DeleteRecordsTopic)
    timeout_ms: int = wire(INT32)


class DeleteRecordsPartitionResult(Struct):
    partition_index: int = wire(INT32)
    low_watermark: int = wire(INT64)
    error_code: int = wire(INT16)


class DeleteRecordsTopicResult(Struct):
    name: str = wire(STRING)
    partitions: list[DeleteRecordsPartitionResult] = array_of(DeleteRecordsPartitionResult)


class DeleteRecordsResponse(Message, api_key=21, versions=(0, 2), flexible_since=2):
    throttle_time_ms: int = wire(INT32)
    topics: list[DeleteRecordsTopicResult] = array_of(DeleteRecordsTopicResult)

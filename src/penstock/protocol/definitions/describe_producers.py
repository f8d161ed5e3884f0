"""The messages of describe_producers, API key 61. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, INT64, STRING, Message, Struct, array_of, wire


class TopicRequest(Struct):
    name: str = wire(STRING)
    partition_indexes: list[int] = array_of(INT32)


class DescribeProducersRequest(Message, api_key=61, versions=(0, 0), flexible_since=0):
    topics: list[TopicRequest] = array_of(TopicRequest)


class ProducerState(Struct):
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT32)
    last_sequence: int = wire(INT32, default=-1)
    last_timestamp: int = wire(INT64, default=-1)
    coordinator_epoch: int = wire(INT32)
    current_txn_start_offset: int = wire(INT64, default=-1)


class PartitionResponse(Struct):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    active_producers: list[ProducerState] = array_of(ProducerState)


class TopicResponse(Struct):
    name: str = wire(STRING)
    partitions: list[PartitionResponse] = array_of(PartitionResponse)


class DescribeProducersResponse(Message, api_key=61, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    topics: list[TopicResponse] = array_of(TopicResponse)

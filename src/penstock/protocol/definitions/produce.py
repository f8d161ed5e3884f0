"""The messages of produce, API key 0. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import (
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UUID,
    Message,
    Records,
    Struct,
    array_of,
    wire,
)


class PartitionProduceData(Struct):
    index: int = wire(INT32)
    records: Records | None = wire(RECORDS, nullable_since=3, default=None)


class TopicProduceData(Struct):
    name: str = wire(STRING, until=12)
    topic_id: bytes = wire(UUID, since=13)
    partition_data: list[PartitionProduceData] = array_of(PartitionProduceData)


class ProduceRequest(Message, api_key=0, versions=(3, 13), flexible_since=9):
    transactional_id: str | None = wire(STRING, nullable_since=3, default=None)
    acks: int = wire(INT16)
    timeout_ms: int = wire(INT32)
    topic_data: list[TopicProduceData] = array_of(TopicProduceData)


class BatchIndexAndErrorMessage(Struct):
    batch_index: int = wire(INT32)
    batch_index_error_message: str | None = wire(STRING, nullable_since=8, default=None)


class LeaderIdAndEpoch(Struct):
    leader_id: int = wire(INT32, default=-1)
    leader_epoch: int = wire(INT32, default=-1)


class PartitionProduceResponse(Struct):
    index: int = wire(INT32)
    error_code: int = wire(INT16)
    base_offset: int = wire(INT64)
    log_append_time_ms: int = wire(INT64, default=-1)
    log_start_offset: int = wire(INT64, since=5, default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = array_of(BatchIndexAndErrorMessage, since=8)
    error_message: str | None = wire(STRING, since=8, nullable_since=8, default=None)
    current_leader: LeaderIdAndEpoch | None = wire(LeaderIdAndEpoch, since=10, tag=0, default=None)


class TopicProduceResponse(Struct):
    name: str = wire(STRING, until=12)
    topic_id: bytes = wire(UUID, since=13)
    partition_responses: list[PartitionProduceResponse] = array_of(PartitionProduceResponse)


class NodeEndpoint(Struct):
    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, nullable_since=10, default=None)


class ProduceResponse(Message, api_key=0, versions=(3, 13), flexible_since=9):
    responses: list[TopicProduceResponse] = array_of(TopicProduceResponse)
    throttle_time_ms: int = wire(INT32)
    node_endpoints: list[NodeEndpoint] = array_of(NodeEndpoint, since=10, tag=0)

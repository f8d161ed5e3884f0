"""The messages of share_fetch, API key 78. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import (
    BOOL,
    INT8,
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


class AcknowledgementBatch(Struct):
    first_offset: int = wire(INT64)
    last_offset: int = wire(INT64)
    acknowledge_types: list[int] = array_of(INT8)


class FetchPartition(Struct):
    partition_index: int = wire(INT32)
    acknowledgement_batches: list[AcknowledgementBatch] = array_of(AcknowledgementBatch)


class FetchTopic(Struct):
    topic_id: bytes = wire(UUID)
    partitions: list[FetchPartition] = array_of(FetchPartition)


class ForgottenTopic(Struct):
    topic_id: bytes = wire(UUID)
    partitions: list[int] = array_of(INT32)


class ShareFetchRequest(Message, api_key=78, versions=(1, 2), flexible_since=1):
    group_id: str | None = wire(STRING, nullable_since=1, default=None)
    member_id: str | None = wire(STRING, nullable_since=1, default=None)
    share_session_epoch: int = wire(INT32)
    max_wait_ms: int = wire(INT32)
    min_bytes: int = wire(INT32)
    max_bytes: int = wire(INT32, default=2147483647)
    max_records: int = wire(INT32)
    batch_size: int = wire(INT32)
    share_acquire_mode: int = wire(INT8, since=2)
    is_renew_ack: bool = wire(BOOL, since=2)
    topics: list[FetchTopic] = array_of(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array_of(ForgottenTopic)


class LeaderIdAndEpoch(Struct):
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)


class AcquiredRecords(Struct):
    first_offset: int = wire(INT64)
    last_offset: int = wire(INT64)
    delivery_count: int = wire(INT16)


class PartitionData(Struct):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=1, default=None)
    acknowledge_error_code: int = wire(INT16)
    acknowledge_error_message: str | None = wire(STRING, nullable_since=1, default=None)
    current_leader: LeaderIdAndEpoch = wire(LeaderIdAndEpoch)
    records: Records = wire(RECORDS)
    acquired_records: list[AcquiredRecords] = array_of(AcquiredRecords)


class ShareFetchableTopicResponse(Struct):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionData] = array_of(PartitionData)


class NodeEndpoint(Struct):
    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, nullable_since=1, default=None)


class ShareFetchResponse(Message, api_key=78, versions=(1, 2), flexible_since=1):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=1, default=None)
    acquisition_lock_timeout_ms: int = wire(INT32)
    responses: list[ShareFetchableTopicResponse] = array_of(ShareFetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array_of(NodeEndpoint)

"""The messages of fetch, API key 1. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import (
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


class ReplicaState(Struct):
    replica_id: int = wire(INT32, default=-1)
    replica_epoch: int = wire(INT64, default=-1)


class FetchPartition(Struct):
    partition: int = wire(INT32)
    current_leader_epoch: int = wire(INT32, since=9, default=-1)
    fetch_offset: int = wire(INT64)
    last_fetched_epoch: int = wire(INT32, since=12, default=-1)
    log_start_offset: int = wire(INT64, since=5, default=-1)
    partition_max_bytes: int = wire(INT32)
    replica_directory_id: bytes = wire(UUID, since=17, tag=0)
    high_watermark: int = wire(INT64, since=18, tag=1, default=9223372036854775807)


class FetchTopic(Struct):
    topic: str = wire(STRING, until=12)
    topic_id: bytes = wire(UUID, since=13)
    partitions: list[FetchPartition] = array_of(FetchPartition)


class ForgottenTopic(Struct):
    topic: str = wire(STRING, until=12)
    topic_id: bytes = wire(UUID, since=13)
    partitions: list[int] = array_of(INT32)


class FetchRequest(Message, api_key=1, versions=(4, 18), flexible_since=12):
    cluster_id: str | None = wire(STRING, since=12, nullable_since=12, tag=0, default=None)
    replica_id: int = wire(INT32, until=14, default=-1)
    replica_state: ReplicaState | None = wire(ReplicaState, since=15, tag=1, default=None)
    max_wait_ms: int = wire(INT32)
    min_bytes: int = wire(INT32)
    max_bytes: int = wire(INT32, default=2147483647)
    isolation_level: int = wire(INT8)
    session_id: int = wire(INT32, since=7)
    session_epoch: int = wire(INT32, since=7, default=-1)
    topics: list[FetchTopic] = array_of(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array_of(ForgottenTopic, since=7)
    rack_id: str = wire(STRING, since=11)


class EpochEndOffset(Struct):
    epoch: int = wire(INT32, default=-1)
    end_offset: int = wire(INT64, default=-1)


class LeaderIdAndEpoch(Struct):
    leader_id: int = wire(INT32, default=-1)
    leader_epoch: int = wire(INT32, default=-1)


class SnapshotId(Struct):
    end_offset: int = wire(INT64, default=-1)
    epoch: int = wire(INT32, default=-1)


class AbortedTransaction(Struct):
    producer_id: int = wire(INT64)
    first_offset: int = wire(INT64)


class PartitionData(Struct):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    high_watermark: int = wire(INT64)
    last_stable_offset: int = wire(INT64, default=-1)
    log_start_offset: int = wire(INT64, since=5, default=-1)
    diverging_epoch: EpochEndOffset | None = wire(EpochEndOffset, since=12, tag=0, default=None)
    current_leader: LeaderIdAndEpoch | None = wire(LeaderIdAndEpoch, since=12, tag=1, default=None)
    snapshot_id: SnapshotId | None = wire(SnapshotId, since=12, tag=2, default=None)
    aborted_transactions: list[AbortedTransaction] | None = array_of(AbortedTransaction, nullable_since=4, default=None)
    preferred_read_replica: int = wire(INT32, since=11, default=-1)
    records: Records | None = wire(RECORDS, nullable_since=4, default=None)


class FetchableTopicResponse(Struct):
    topic: str = wire(STRING, until=12)
    topic_id: bytes = wire(UUID, since=13)
    partitions: list[PartitionData] = array_of(PartitionData)


class NodeEndpoint(Struct):
    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, nullable_since=16, default=None)


class FetchResponse(Message, api_key=1, versions=(4, 18), flexible_since=12):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16, since=7)
    session_id: int = wire(INT32, since=7)
    responses: list[FetchableTopicResponse] = array_of(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array_of(NodeEndpoint, since=16, tag=0)

"""The messages of fetch_snapshot, API key 59. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import (
    INT16,
    INT32,
    INT64,
    RECORDS,
    STRING,
    UINT16,
    UUID,
    Message,
    Records,
    Struct,
    array_of,
    wire,
)


class RequestSnapshotId(Struct):
    end_offset: int = wire(INT64)
    epoch: int = wire(INT32)


class RequestPartitionSnapshot(Struct):
    partition: int = wire(INT32)
    current_leader_epoch: int = wire(INT32)
    snapshot_id: RequestSnapshotId = wire(RequestSnapshotId)
    position: int = wire(INT64)
    replica_directory_id: bytes = wire(UUID, since=1, tag=0)


class RequestTopicSnapshot(Struct):
    name: str = wire(STRING)
    partitions: list[RequestPartitionSnapshot] = array_of(RequestPartitionSnapshot)


class FetchSnapshotRequest(Message, api_key=59, versions=(0, 1), flexible_since=0):
    cluster_id: str | None = wire(STRING, nullable_since=0, tag=0, default=None)
    replica_id: int = wire(INT32, default=-1)
    max_bytes: int = wire(INT32, default=2147483647)
    topics: list[RequestTopicSnapshot] = array_of(RequestTopicSnapshot)


class ResponseSnapshotId(Struct):
    end_offset: int = wire(INT64)
    epoch: int = wire(INT32)


class LeaderIdAndEpoch(Struct):
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)


class ResponsePartitionSnapshot(Struct):
    index: int = wire(INT32)
    error_code: int = wire(INT16)
    snapshot_id: ResponseSnapshotId = wire(ResponseSnapshotId)
    current_leader: LeaderIdAndEpoch | None = wire(LeaderIdAndEpoch, tag=0, default=None)
    size: int = wire(INT64)
    position: int = wire(INT64)
    unaligned_records: Records = wire(RECORDS)


class ResponseTopicSnapshot(Struct):
    name: str = wire(STRING)
    partitions: list[ResponsePartitionSnapshot] = array_of(ResponsePartitionSnapshot)


class NodeEndpoint(Struct):
    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(UINT16)


class FetchSnapshotResponse(Message, api_key=59, versions=(0, 1), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    topics: list[ResponseTopicSnapshot] = array_of(ResponseTopicSnapshot)
    node_endpoints: list[NodeEndpoint] = array_of(NodeEndpoint, since=1, tag=0)

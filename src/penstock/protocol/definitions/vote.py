"""The messages of vote, API key 52. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT16, INT32, INT64, STRING, UINT16, UUID, Message, Struct, array_of, wire


class RequestPartitionData(Struct):
    partition_index: int = wire(INT32)
    replica_epoch: int = wire(INT32)
    replica_id: int = wire(INT32)
    replica_directory_id: bytes = wire(UUID, since=1)
    voter_directory_id: bytes = wire(UUID, since=1)
    last_offset_epoch: int = wire(INT32)
    last_offset: int = wire(INT64)
    pre_vote: bool = wire(BOOL, since=2)


class RequestTopicData(Struct):
    topic_name: str = wire(STRING)
    partitions: list[RequestPartitionData] = array_of(RequestPartitionData)


class VoteRequest(Message, api_key=52, versions=(0, 2), flexible_since=0):
    cluster_id: str | None = wire(STRING, nullable_since=0, default=None)
    voter_id: int = wire(INT32, since=1, default=-1)
    topics: list[RequestTopicData] = array_of(RequestTopicData)


class ResponsePartitionData(Struct):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    vote_granted: bool = wire(BOOL)


class ResponseTopicData(Struct):
    topic_name: str = wire(STRING)
    partitions: list[ResponsePartitionData] = array_of(ResponsePartitionData)


class NodeEndpoint(Struct):
    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(UINT16)


class VoteResponse(Message, api_key=52, versions=(0, 2), flexible_since=0):
    error_code: int = wire(INT16)
    topics: list[ResponseTopicData] = array_of(ResponseTopicData)
    node_endpoints: list[NodeEndpoint] = array_of(NodeEndpoint, since=1, tag=0)

"""The messages of begin_quorum_epoch, API key 53. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, STRING, UINT16, UUID, Message, Struct, array_of, wire


class RequestPartitionData(Struct):
    partition_index: int = wire(INT32)
    voter_directory_id: bytes = wire(UUID, since=1)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)


class RequestTopicData(Struct):
    topic_name: str = wire(STRING)
    partitions: list[RequestPartitionData] = array_of(RequestPartitionData)


class LeaderEndpoint(Struct):
    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)


class BeginQuorumEpochRequest(Message, api_key=53, versions=(0, 1), flexible_since=1):
    cluster_id: str | None = wire(STRING, nullable_since=0, default=None)
    voter_id: int = wire(INT32, since=1, default=-1)
    topics: list[RequestTopicData] = array_of(RequestTopicData)
    leader_endpoints: list[LeaderEndpoint] = array_of(LeaderEndpoint, since=1)


class ResponsePartitionData(Struct):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)


class ResponseTopicData(Struct):
    topic_name: str = wire(STRING)
    partitions: list[ResponsePartitionData] = array_of(ResponsePartitionData)


class NodeEndpoint(Struct):
    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(UINT16)


class BeginQuorumEpochResponse(Message, api_key=53, versions=(0, 1), flexible_since=1):
    error_code: int = wire(INT16)
    topics: list[ResponseTopicData] = array_of(ResponseTopicData)
    node_endpoints: list[NodeEndpoint] = array_of(NodeEndpoint, since=1, tag=0)

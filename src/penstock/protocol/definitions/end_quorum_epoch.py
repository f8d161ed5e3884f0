"""The messages of end_quorum_epoch, API key 54. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, STRING, UINT16, UUID, Message, Struct, array_of, wire


class ReplicaInfo(Struct):
    candidate_id: int = wire(INT32)
    candidate_directory_id: bytes = wire(UUID)


class RequestPartitionData(Struct):
    partition_index: int = wire(INT32)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    preferred_successors: list[int] = array_of(INT32, until=0)
    preferred_candidates: list[ReplicaInfo] = array_of(ReplicaInfo, since=1)


class RequestTopicData(Struct):
    topic_name: str = wire(STRING)
    partitions: list[RequestPartitionData] = array_of(RequestPartitionData)


class LeaderEndpoint(Struct):
    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)


class EndQuorumEpochRequest(Message, api_key=54, versions=(0, 1), flexible_since=1):
    cluster_id: str | None = wire(STRING, nullable_since=0, default=None)
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


class EndQuorumEpochResponse(Message, api_key=54, versions=(0, 1), flexible_since=1):
    error_code: int = wire(INT16)
    topics: list[ResponseTopicData] = array_of(ResponseTopicData)
    node_endpoints: list[NodeEndpoint] = array_of(NodeEndpoint, since=1, tag=0)

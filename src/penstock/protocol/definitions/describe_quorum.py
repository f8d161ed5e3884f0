"""The messages of describe_quorum, API key 55. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, INT64, STRING, UINT16, UUID, Message, Struct, array_of, wire


class RequestPartitionData(Struct):
    partition_index: int = wire(INT32)


class RequestTopicData(Struct):
    topic_name: str = wire(STRING)
    partitions: list[RequestPartitionData] = array_of(RequestPartitionData)


class DescribeQuorumRequest(Message, api_key=55, versions=(0, 2), flexible_since=0):
    topics: list[RequestTopicData] = array_of(RequestTopicData)


class ReplicaState(Struct):
    replica_id: int = wire(INT32)
    replica_directory_id: bytes = wire(UUID, since=2)
    log_end_offset: int = wire(INT64)
    last_fetch_timestamp: int = wire(INT64, since=1, default=-1)
    last_caught_up_timestamp: int = wire(INT64, since=1, default=-1)


class ResponsePartitionData(Struct):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, since=2, nullable_since=2, default=None)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    high_watermark: int = wire(INT64)
    current_voters: list[ReplicaState] = array_of(ReplicaState)
    observers: list[ReplicaState] = array_of(ReplicaState)


class ResponseTopicData(Struct):
    topic_name: str = wire(STRING)
    partitions: list[ResponsePartitionData] = array_of(ResponsePartitionData)


class Listener(Struct):
    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)


class Node(Struct):
    node_id: int = wire(INT32)
    listeners: list[Listener] = array_of(Listener)


class DescribeQuorumResponse(Message, api_key=55, versions=(0, 2), flexible_since=0):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, since=2, nullable_since=2, default=None)
    topics: list[ResponseTopicData] = array_of(ResponseTopicData)
    nodes: list[Node] = array_of(Node, since=2)

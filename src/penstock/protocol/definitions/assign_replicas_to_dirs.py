"""The messages of assign_replicas_to_dirs, API key 73. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, INT64, UUID, Message, Struct, array_of, wire


class RequestPartitionData(Struct):
    partition_index: int = wire(INT32)


class RequestTopicData(Struct):
    topic_id: bytes = wire(UUID)
    partitions: list[RequestPartitionData] = array_of(RequestPartitionData)


class RequestDirectoryData(Struct):
    id_: bytes = wire(UUID)
    topics: list[RequestTopicData] = array_of(RequestTopicData)


class AssignReplicasToDirsRequest(Message, api_key=73, versions=(0, 0), flexible_since=0):
    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64, default=-1)
    directories: list[RequestDirectoryData] = array_of(RequestDirectoryData)


class ResponsePartitionData(Struct):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


class ResponseTopicData(Struct):
    topic_id: bytes = wire(UUID)
    partitions: list[ResponsePartitionData] = array_of(ResponsePartitionData)


class ResponseDirectoryData(Struct):
    id_: bytes = wire(UUID)
    topics: list[ResponseTopicData] = array_of(ResponseTopicData)


class AssignReplicasToDirsResponse(Message, api_key=73, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    directories: list[ResponseDirectoryData] = array_of(ResponseDirectoryData)

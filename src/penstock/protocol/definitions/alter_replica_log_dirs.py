"""The messages of alter_replica_log_dirs, API key 34. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, STRING, Message, Struct, array_of, wire


class AlterReplicaLogDirTopic(Struct):
    name: str = wire(STRING)
    partitions: list[int] = array_of(INT32)


class AlterReplicaLogDir(Struct):
    path: str = wire(STRING)
    topics: list[AlterReplicaLogDirTopic] = array_of(AlterReplicaLogDirTopic)


class AlterReplicaLogDirsRequest(Message, api_key=34, versions=(1, 2), flexible_since=2):
    dirs: list[AlterReplicaLogDir] = array_of(AlterReplicaLogDir)


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = wire(STRING)
    partitions: list[AlterReplicaLogDirPartitionResult] = array_of(AlterReplicaLogDirPartitionResult)


class AlterReplicaLogDirsResponse(Message, api_key=34, versions=(1, 2), flexible_since=2):
    throttle_time_ms: int = wire(INT32)
    results: list[AlterReplicaLogDirTopicResult] = array_of(AlterReplicaLogDirTopicResult)

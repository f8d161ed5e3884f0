"""The messages of elect_leaders, API key 43. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT8, INT16, INT32, STRING, Message, Struct, array_of, wire


class TopicPartitions(Struct):
    topic: str = wire(STRING)
    partitions: list[int] = array_of(INT32)


class ElectLeadersRequest(Message, api_key=43, versions=(0, 2), flexible_since=2):
    election_type: int = wire(INT8, since=1)
    topic_partitions: list[TopicPartitions] | None = array_of(TopicPartitions, nullable_since=0, default=None)
    timeout_ms: int = wire(INT32, default=60000)


class PartitionResult(Struct):
    partition_id: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)


class ReplicaElectionResult(Struct):
    topic: str = wire(STRING)
    partition_result: list[PartitionResult] = array_of(PartitionResult)


class ElectLeadersResponse(Message, api_key=43, versions=(0, 2), flexible_since=2):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16, since=1)
    replica_election_results: list[ReplicaElectionResult] = array_of(ReplicaElectionResult)

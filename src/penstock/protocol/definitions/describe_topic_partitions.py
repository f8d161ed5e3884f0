"""The messages of describe_topic_partitions, API key 75. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT16, INT32, STRING, UUID, Message, Struct, array_of, wire


class TopicRequest(Struct):
    name: str = wire(STRING)


class RequestCursor(Struct):
    topic_name: str = wire(STRING)
    partition_index: int = wire(INT32)


class DescribeTopicPartitionsRequest(Message, api_key=75, versions=(0, 0), flexible_since=0):
    topics: list[TopicRequest] = array_of(TopicRequest)
    response_partition_limit: int = wire(INT32, default=2000)
    cursor: RequestCursor | None = wire(RequestCursor, nullable_since=0, default=None)


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int = wire(INT16)
    partition_index: int = wire(INT32)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32, default=-1)
    replica_nodes: list[int] = array_of(INT32)
    isr_nodes: list[int] = array_of(INT32)
    eligible_leader_replicas: list[int] | None = array_of(INT32, nullable_since=0, default=None)
    last_known_elr: list[int] | None = array_of(INT32, nullable_since=0, default=None)
    offline_replicas: list[int] = array_of(INT32)


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = wire(INT16)
    name: str | None = wire(STRING, nullable_since=0, default=None)
    topic_id: bytes = wire(UUID)
    is_internal: bool = wire(BOOL)
    partitions: list[DescribeTopicPartitionsResponsePartition] = array_of(DescribeTopicPartitionsResponsePartition)
    topic_authorized_operations: int = wire(INT32, default=-2147483648)


class ResponseCursor(Struct):
    topic_name: str = wire(STRING)
    partition_index: int = wire(INT32)


class DescribeTopicPartitionsResponse(Message, api_key=75, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    topics: list[DescribeTopicPartitionsResponseTopic] = array_of(DescribeTopicPartitionsResponseTopic)
    next_cursor: ResponseCursor | None = wire(ResponseCursor, nullable_since=0, default=None)

"""The messages of streams_group_heartbeat, API key 88. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT8, INT16, INT32, INT64, STRING, UINT16, Message, Struct, array_of, wire


class KeyValue(Struct):
    key: str = wire(STRING)
    value: str = wire(STRING)


class TopicInfo(Struct):
    name: str = wire(STRING)
    partitions: int = wire(INT32)
    replication_factor: int = wire(INT16)
    topic_configs: list[KeyValue] = array_of(KeyValue)


class CopartitionGroup(Struct):
    source_topics: list[int] = array_of(INT16)
    source_topic_regex: list[int] = array_of(INT16)
    repartition_source_topics: list[int] = array_of(INT16)


class Subtopology(Struct):
    subtopology_id: str = wire(STRING)
    source_topics: list[str] = array_of(STRING)
    source_topic_regex: list[str] = array_of(STRING)
    state_changelog_topics: list[TopicInfo] = array_of(TopicInfo)
    repartition_sink_topics: list[str] = array_of(STRING)
    repartition_source_topics: list[TopicInfo] = array_of(TopicInfo)
    copartition_groups: list[CopartitionGroup] = array_of(CopartitionGroup)


class Topology(Struct):
    epoch: int = wire(INT32)
    subtopologies: list[Subtopology] = array_of(Subtopology)


class RequestTaskIds(Struct):
    subtopology_id: str = wire(STRING)
    partitions: list[int] = array_of(INT32)


class RequestEndpoint(Struct):
    host: str = wire(STRING)
    port: int = wire(UINT16)


class TaskOffset(Struct):
    subtopology_id: str = wire(STRING)
    partition: int = wire(INT32)
    offset: int = wire(INT64)


class StreamsGroupHeartbeatRequest(Message, api_key=88, versions=(0, 0), flexible_since=0):
    group_id: str = wire(STRING)
    member_id: str = wire(STRING)
    member_epoch: int = wire(INT32)
    endpoint_information_epoch: int = wire(INT32)
    instance_id: str | None = wire(STRING, nullable_since=0, default=None)
    rack_id: str | None = wire(STRING, nullable_since=0, default=None)
    rebalance_timeout_ms: int = wire(INT32, default=-1)
    topology: Topology | None = wire(Topology, nullable_since=0, default=None)
    active_tasks: list[RequestTaskIds] | None = array_of(RequestTaskIds, nullable_since=0, default=None)
    standby_tasks: list[RequestTaskIds] | None = array_of(RequestTaskIds, nullable_since=0, default=None)
    warmup_tasks: list[RequestTaskIds] | None = array_of(RequestTaskIds, nullable_since=0, default=None)
    process_id: str | None = wire(STRING, nullable_since=0, default=None)
    user_endpoint: RequestEndpoint | None = wire(RequestEndpoint, nullable_since=0, default=None)
    client_tags: list[KeyValue] | None = array_of(KeyValue, nullable_since=0, default=None)
    task_offsets: list[TaskOffset] | None = array_of(TaskOffset, nullable_since=0, default=None)
    task_end_offsets: list[TaskOffset] | None = array_of(TaskOffset, nullable_since=0, default=None)
    shutdown_application: bool = wire(BOOL)


class Status(Struct):
    status_code: int = wire(INT8)
    status_detail: str = wire(STRING)


class ResponseTaskIds(Struct):
    subtopology_id: str = wire(STRING)
    partitions: list[int] = array_of(INT32)


class ResponseEndpoint(Struct):
    host: str = wire(STRING)
    port: int = wire(UINT16)


class TopicPartition(Struct):
    topic: str = wire(STRING)
    partitions: list[int] = array_of(INT32)


class EndpointToPartitions(Struct):
    user_endpoint: ResponseEndpoint = wire(ResponseEndpoint)
    active_partitions: list[TopicPartition] = array_of(TopicPartition)
    standby_partitions: list[TopicPartition] = array_of(TopicPartition)


class StreamsGroupHeartbeatResponse(Message, api_key=88, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    member_id: str = wire(STRING)
    member_epoch: int = wire(INT32)
    heartbeat_interval_ms: int = wire(INT32)
    acceptable_recovery_lag: int = wire(INT32)
    task_offset_interval_ms: int = wire(INT32)
    status: list[Status] | None = array_of(Status, nullable_since=0, default=None)
    active_tasks: list[ResponseTaskIds] | None = array_of(ResponseTaskIds, nullable_since=0, default=None)
    standby_tasks: list[ResponseTaskIds] | None = array_of(ResponseTaskIds, nullable_since=0, default=None)
    warmup_tasks: list[ResponseTaskIds] | None = array_of(ResponseTaskIds, nullable_since=0, default=None)
    endpoint_information_epoch: int = wire(INT32)
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = array_of(
        EndpointToPartitions, nullable_since=0, default=None
    )

"""The messages of streams_group_describe, API key 89. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT16, INT32, INT64, STRING, UINT16, Message, Struct, array_of, wire


class StreamsGroupDescribeRequest(Message, api_key=89, versions=(0, 0), flexible_since=0):
    group_ids: list[str] = array_of(STRING)
    include_authorized_operations: bool = wire(BOOL)


class KeyValue(Struct):
    key: str = wire(STRING)
    value: str = wire(STRING)


class TopicInfo(Struct):
    name: str = wire(STRING)
    partitions: int = wire(INT32)
    replication_factor: int = wire(INT16)
    topic_configs: list[KeyValue] = array_of(KeyValue)


class Subtopology(Struct):
    subtopology_id: str = wire(STRING)
    source_topics: list[str] = array_of(STRING)
    repartition_sink_topics: list[str] = array_of(STRING)
    state_changelog_topics: list[TopicInfo] = array_of(TopicInfo)
    repartition_source_topics: list[TopicInfo] = array_of(TopicInfo)


class Topology(Struct):
    epoch: int = wire(INT32)
    subtopologies: list[Subtopology] | None = array_of(Subtopology, nullable_since=0, default=None)


class Endpoint(Struct):
    host: str = wire(STRING)
    port: int = wire(UINT16)


class TaskOffset(Struct):
    subtopology_id: str = wire(STRING)
    partition: int = wire(INT32)
    offset: int = wire(INT64)


class TaskIds(Struct):
    subtopology_id: str = wire(STRING)
    partitions: list[int] = array_of(INT32)


class Assignment(Struct):
    active_tasks: list[TaskIds] = array_of(TaskIds)
    standby_tasks: list[TaskIds] = array_of(TaskIds)
    warmup_tasks: list[TaskIds] = array_of(TaskIds)


class Member(Struct):
    member_id: str = wire(STRING)
    member_epoch: int = wire(INT32)
    instance_id: str | None = wire(STRING, nullable_since=0, default=None)
    rack_id: str | None = wire(STRING, nullable_since=0, default=None)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    topology_epoch: int = wire(INT32)
    process_id: str = wire(STRING)
    user_endpoint: Endpoint | None = wire(Endpoint, nullable_since=0, default=None)
    client_tags: list[KeyValue] = array_of(KeyValue)
    task_offsets: list[TaskOffset] = array_of(TaskOffset)
    task_end_offsets: list[TaskOffset] = array_of(TaskOffset)
    assignment: Assignment = wire(Assignment)
    target_assignment: Assignment = wire(Assignment)
    is_classic: bool = wire(BOOL)


class DescribedGroup(Struct):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    group_id: str = wire(STRING)
    group_state: str = wire(STRING)
    group_epoch: int = wire(INT32)
    assignment_epoch: int = wire(INT32)
    topology: Topology | None = wire(Topology, nullable_since=0, default=None)
    members: list[Member] = array_of(Member)
    authorized_operations: int = wire(INT32, default=-2147483648)


class StreamsGroupDescribeResponse(Message, api_key=89, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    groups: list[DescribedGroup] = array_of(DescribedGroup)

"""The messages of list_partition_reassignments, API key 46. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, STRING, Message, Struct, array_of, wire


class ListPartitionReassignmentsTopics(Struct):
    name: str = wire(STRING)
    partition_indexes: list[int] = array_of(INT32)


class ListPartitionReassignmentsRequest(Message, api_key=46, versions=(0, 0), flexible_since=0):
    timeout_ms: int = wire(INT32, default=60000)
    topics: list[ListPartitionReassignmentsTopics] | None = array_of(
        ListPartitionReassignmentsTopics, nullable_since=0, default=None
    )


class OngoingPartitionReassignment(Struct):
    partition_index: int = wire(INT32)
    replicas: list[int] = array_of(INT32)
    adding_replicas: list[int] = array_of(INT32)
    removing_replicas: list[int] = array_of(INT32)


class OngoingTopicReassignment(Struct):
    name: str = wire(STRING)
    partitions: list[OngoingPartitionReassignment] = array_of(OngoingPartitionReassignment)


class ListPartitionReassignmentsResponse(Message, api_key=46, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    topics: list[OngoingTopicReassignment] = array_of(OngoingTopicReassignment)

"""The messages of create_partitions, API key 37. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT16, INT32, STRING, Message, Struct, array_of, wire


class CreatePartitionsAssignment(Struct):
    broker_ids: list[int] = array_of(INT32)


class CreatePartitionsTopic(Struct):
    name: str = wire(STRING)
    count: int = wire(INT32)
    assignments: list[CreatePartitionsAssignment] | None = array_of(
        CreatePartitionsAssignment, nullable_since=0, default=None
    )


class CreatePartitionsRequest(Message, api_key=37, versions=(0, 3), flexible_since=2):
    topics: list[CreatePartitionsTopic] = array_of(CreatePartitionsTopic)
    timeout_ms: int = wire(INT32)
    validate_only: bool = wire(BOOL)


class CreatePartitionsTopicResult(Struct):
    name: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)


class CreatePartitionsResponse(Message, api_key=37, versions=(0, 3), flexible_since=2):
    throttle_time_ms: int = wire(INT32)
    results: list[CreatePartitionsTopicResult] = array_of(CreatePartitionsTopicResult)

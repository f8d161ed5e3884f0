"""The messages of describe_share_group_offsets, API key 90. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, INT64, STRING, UUID, Message, Struct, array_of, wire


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = wire(STRING)
    partitions: list[int] = array_of(INT32)


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: str = wire(STRING)
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = array_of(
        DescribeShareGroupOffsetsRequestTopic, nullable_since=0, default=None
    )


class DescribeShareGroupOffsetsRequest(Message, api_key=90, versions=(0, 1), flexible_since=0):
    groups: list[DescribeShareGroupOffsetsRequestGroup] = array_of(DescribeShareGroupOffsetsRequestGroup)


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: int = wire(INT32)
    start_offset: int = wire(INT64)
    leader_epoch: int = wire(INT32)
    lag: int = wire(INT64, since=1, default=-1)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = wire(STRING)
    topic_id: bytes = wire(UUID)
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = array_of(DescribeShareGroupOffsetsResponsePartition)


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: str = wire(STRING)
    topics: list[DescribeShareGroupOffsetsResponseTopic] = array_of(DescribeShareGroupOffsetsResponseTopic)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)


class DescribeShareGroupOffsetsResponse(Message, api_key=90, versions=(0, 1), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    groups: list[DescribeShareGroupOffsetsResponseGroup] = array_of(DescribeShareGroupOffsetsResponseGroup)

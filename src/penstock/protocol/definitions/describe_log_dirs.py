"""The messages of describe_log_dirs, API key 35. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT16, INT32, INT64, STRING, Message, Struct, array_of, wire


class DescribableLogDirTopic(Struct):
    topic: str = wire(STRING)
    partitions: list[int] = array_of(INT32)


class DescribeLogDirsRequest(Message, api_key=35, versions=(1, 5), flexible_since=2):
    topics: list[DescribableLogDirTopic] | None = array_of(DescribableLogDirTopic, nullable_since=1, default=None)


class DescribeLogDirsPartition(Struct):
    partition_index: int = wire(INT32)
    partition_size: int = wire(INT64)
    offset_lag: int = wire(INT64)
    is_future_key: bool = wire(BOOL)


class DescribeLogDirsTopic(Struct):
    name: str = wire(STRING)
    partitions: list[DescribeLogDirsPartition] = array_of(DescribeLogDirsPartition)


class DescribeLogDirsResult(Struct):
    error_code: int = wire(INT16)
    log_dir: str = wire(STRING)
    topics: list[DescribeLogDirsTopic] = array_of(DescribeLogDirsTopic)
    total_bytes: int = wire(INT64, since=4, default=-1)
    usable_bytes: int = wire(INT64, since=4, default=-1)
    is_cordoned: bool = wire(BOOL, since=5)


class DescribeLogDirsResponse(Message, api_key=35, versions=(1, 5), flexible_since=2):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16, since=3)
    results: list[DescribeLogDirsResult] = array_of(DescribeLogDirsResult)

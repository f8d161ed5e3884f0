"""The messages of describe_configs, API key 32. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT8, INT16, INT32, STRING, Message, Struct, array_of, wire


class DescribeConfigsResource(Struct):
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configuration_keys: list[str] | None = array_of(STRING, nullable_since=1, default=None)


class DescribeConfigsRequest(Message, api_key=32, versions=(1, 4), flexible_since=4):
    resources: list[DescribeConfigsResource] = array_of(DescribeConfigsResource)
    include_synonyms: bool = wire(BOOL)
    include_documentation: bool = wire(BOOL, since=3)


class DescribeConfigsSynonym(Struct):
    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable_since=1, default=None)
    source: int = wire(INT8)


class DescribeConfigsResourceResult(Struct):
    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable_since=1, default=None)
    read_only: bool = wire(BOOL)
    config_source: int = wire(INT8, default=-1)
    is_sensitive: bool = wire(BOOL)
    synonyms: list[DescribeConfigsSynonym] = array_of(DescribeConfigsSynonym)
    config_type: int = wire(INT8, since=3)
    documentation: str | None = wire(STRING, since=3, nullable_since=3, default=None)


class DescribeConfigsResult(Struct):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=1, default=None)
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configs: list[DescribeConfigsResourceResult] = array_of(DescribeConfigsResourceResult)


class DescribeConfigsResponse(Message, api_key=32, versions=(1, 4), flexible_since=4):
    throttle_time_ms: int = wire(INT32)
    results: list[DescribeConfigsResult] = array_of(DescribeConfigsResult)

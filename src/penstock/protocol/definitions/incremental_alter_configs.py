"""The messages of incremental_alter_configs, API key 44. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT8, INT16, INT32, STRING, Message, Struct, array_of, wire


class AlterableConfig(Struct):
    name: str = wire(STRING)
    config_operation: int = wire(INT8)
    value: str | None = wire(STRING, nullable_since=0, default=None)


class AlterConfigsResource(Struct):
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    configs: list[AlterableConfig] = array_of(AlterableConfig)


class IncrementalAlterConfigsRequest(Message, api_key=44, versions=(0, 1), flexible_since=1):
    resources: list[AlterConfigsResource] = array_of(AlterConfigsResource)
    validate_only: bool = wire(BOOL)


class AlterConfigsResourceResponse(Struct):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)


class IncrementalAlterConfigsResponse(Message, api_key=44, versions=(0, 1), flexible_since=1):
    throttle_time_ms: int = wire(INT32)
    responses: list[AlterConfigsResourceResponse] = array_of(AlterConfigsResourceResponse)

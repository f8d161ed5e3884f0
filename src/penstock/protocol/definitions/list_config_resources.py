"""The messages of list_config_resources, API key 74. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT8, INT16, INT32, STRING, Message, Struct, array_of, wire


class ListConfigResourcesRequest(Message, api_key=74, versions=(0, 1), flexible_since=0):
    resource_types: list[int] = array_of(INT8, since=1)


class ConfigResource(Struct):
    resource_name: str = wire(STRING)
    resource_type: int = wire(INT8, since=1, default=16)


class ListConfigResourcesResponse(Message, api_key=74, versions=(0, 1), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    config_resources: list[ConfigResource] = array_of(ConfigResource)

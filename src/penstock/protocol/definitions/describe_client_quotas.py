"""The messages of describe_client_quotas, API key 48. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, FLOAT64, INT8, INT16, INT32, STRING, Message, Struct, array_of, wire


class ComponentData(Struct):
    entity_type: str = wire(STRING)
    match_type: int = wire(INT8)
    match: str | None = wire(STRING, nullable_since=0, default=None)


class DescribeClientQuotasRequest(Message, api_key=48, versions=(0, 1), flexible_since=1):
    components: list[ComponentData] = array_of(ComponentData)
    strict: bool = wire(BOOL)


class EntityData(Struct):
    entity_type: str = wire(STRING)
    entity_name: str | None = wire(STRING, nullable_since=0, default=None)


class ValueData(Struct):
    key: str = wire(STRING)
    value: float = wire(FLOAT64)


class EntryData(Struct):
    entity: list[EntityData] = array_of(EntityData)
    values: list[ValueData] = array_of(ValueData)


class DescribeClientQuotasResponse(Message, api_key=48, versions=(0, 1), flexible_since=1):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    entries: list[EntryData] | None = array_of(EntryData, nullable_since=0, default=None)

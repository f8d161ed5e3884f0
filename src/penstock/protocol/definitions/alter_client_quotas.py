"""The messages of alter_client_quotas, API key 49. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, FLOAT64, INT16, INT32, STRING, Message, Struct, array_of, wire


class RequestEntityData(Struct):
    entity_type: str = wire(STRING)
    entity_name: str | None = wire(STRING, nullable_since=0, default=None)


class OpData(Struct):
    key: str = wire(STRING)
    value: float = wire(FLOAT64)
    remove: bool = wire(BOOL)


class RequestEntryData(Struct):
    entity: list[RequestEntityData] = array_of(RequestEntityData)
    ops: list[OpData] = array_of(OpData)


class AlterClientQuotasRequest(Message, api_key=49, versions=(0, 1), flexible_since=1):
    entries: list[RequestEntryData] = array_of(RequestEntryData)
    validate_only: bool = wire(BOOL)


class ResponseEntityData(Struct):
    entity_type: str = wire(STRING)
    entity_name: str | None = wire(STRING, nullable_since=0, default=None)


class ResponseEntryData(Struct):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    entity: list[ResponseEntityData] = array_of(ResponseEntityData)


class AlterClientQuotasResponse(Message, api_key=49, versions=(0, 1), flexible_since=1):
    throttle_time_ms: int = wire(INT32)
    entries: list[ResponseEntryData] = array_of(ResponseEntryData)

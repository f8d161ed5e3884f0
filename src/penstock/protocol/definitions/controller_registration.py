"""The messages of controller_registration, API key 70. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT16, INT32, STRING, UINT16, UUID, Message, Struct, array_of, wire


class Listener(Struct):
    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)
    security_protocol: int = wire(INT16)


class Feature(Struct):
    name: str = wire(STRING)
    min_supported_version: int = wire(INT16)
    max_supported_version: int = wire(INT16)


class ControllerRegistrationRequest(Message, api_key=70, versions=(0, 0), flexible_since=0):
    controller_id: int = wire(INT32)
    incarnation_id: bytes = wire(UUID)
    zk_migration_ready: bool = wire(BOOL)
    listeners: list[Listener] = array_of(Listener)
    features: list[Feature] = array_of(Feature)


class ControllerRegistrationResponse(Message, api_key=70, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)

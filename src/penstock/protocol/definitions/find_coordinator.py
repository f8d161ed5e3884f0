"""The messages of find_coordinator, API key 10. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT8, INT16, INT32, STRING, Message, Struct, array_of, wire


class FindCoordinatorRequest(Message, api_key=10, versions=(0, 6), flexible_since=3):
    key: str = wire(STRING, until=3)
    key_type: int = wire(INT8, since=1)
    coordinator_keys: list[str] = array_of(STRING, since=4)


class Coordinator(Struct):
    key: str = wire(STRING)
    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=4, default=None)


class FindCoordinatorResponse(Message, api_key=10, versions=(0, 6), flexible_since=3):
    throttle_time_ms: int = wire(INT32, since=1)
    error_code: int = wire(INT16, until=3)
    error_message: str | None = wire(STRING, since=1, until=3, nullable_since=1, default=None)
    node_id: int = wire(INT32, until=3)
    host: str = wire(STRING, until=3)
    port: int = wire(INT32, until=3)
    coordinators: list[Coordinator] = array_of(Coordinator, since=4)

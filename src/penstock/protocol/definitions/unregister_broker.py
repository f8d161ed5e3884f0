"""The messages of unregister_broker, API key 64. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, STRING, Message, wire


class UnregisterBrokerRequest(Message, api_key=64, versions=(0, 0), flexible_since=0):
    broker_id: int = wire(INT32)


class UnregisterBrokerResponse(Message, api_key=64, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)

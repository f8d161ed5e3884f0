"""The message request_header. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, STRING, Message, wire


class RequestHeader(Message, versions=(1, 2), flexible_since=2):
    request_api_key: int = wire(INT16)
    request_api_version: int = wire(INT16)
    correlation_id: int = wire(INT32)
    client_id: str | None = wire(STRING, nullable_since=1, default=None, always_legacy=True)

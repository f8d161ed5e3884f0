"""The messages of sasl_authenticate, API key 36. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BYTES, INT16, INT64, STRING, Message, wire


class SaslAuthenticateRequest(Message, api_key=36, versions=(0, 2), flexible_since=2):
    auth_bytes: bytes = wire(BYTES)


class SaslAuthenticateResponse(Message, api_key=36, versions=(0, 2), flexible_since=2):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    auth_bytes: bytes = wire(BYTES)
    session_lifetime_ms: int = wire(INT64, since=1)

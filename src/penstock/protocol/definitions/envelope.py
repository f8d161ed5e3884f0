"""The messages of envelope, API key 58. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BYTES, INT16, Message, wire


class EnvelopeRequest(Message, api_key=58, versions=(0, 0), flexible_since=0):
    request_data: bytes = wire(BYTES)
    request_principal: bytes | None = wire(BYTES, nullable_since=0, default=None)
    client_host_address: bytes = wire(BYTES)


class EnvelopeResponse(Message, api_key=58, versions=(0, 0), flexible_since=0):
    response_data: bytes | None = wire(BYTES, nullable_since=0, default=None)
    error_code: int = wire(INT16)

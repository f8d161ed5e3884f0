"""The message response_header. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT32, Message, wire


class ResponseHeader(Message, versions=(0, 1), flexible_since=1):
    correlation_id: int = wire(INT32)

"""The messages of expire_delegation_token, API key 40. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BYTES, INT16, INT32, INT64, Message, wire


class ExpireDelegationTokenRequest(Message, api_key=40, versions=(1, 2), flexible_since=2):
    hmac: bytes = wire(BYTES)
    expiry_time_period_ms: int = wire(INT64)


class ExpireDelegationTokenResponse(Message, api_key=40, versions=(1, 2), flexible_since=2):
    error_code: int = wire(INT16)
    expiry_timestamp_ms: int = wire(INT64)
    throttle_time_ms: int = wire(INT32)

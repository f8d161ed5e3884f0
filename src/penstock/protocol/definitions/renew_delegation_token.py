"""The messages of renew_delegation_token, API key 39. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BYTES, INT16, INT32, INT64, Message, wire


class RenewDelegationTokenRequest(Message, api_key=39, versions=(1, 2), flexible_since=2):
    hmac: bytes = wire(BYTES)
    renew_period_ms: int = wire(INT64)


class RenewDelegationTokenResponse(Message, api_key=39, versions=(1, 2), flexible_since=2):
    error_code: int = wire(INT16)
    expiry_timestamp_ms: int = wire(INT64)
    throttle_time_ms: int = wire(INT32)

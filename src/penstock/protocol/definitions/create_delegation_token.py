"""The messages of create_delegation_token, API key 38. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BYTES, INT16, INT32, INT64, STRING, Message, Struct, array_of, wire


class CreatableRenewers(Struct):
    principal_type: str = wire(STRING)
    principal_name: str = wire(STRING)


class CreateDelegationTokenRequest(Message, api_key=38, versions=(1, 3), flexible_since=2):
    owner_principal_type: str | None = wire(STRING, since=3, nullable_since=3, default=None)
    owner_principal_name: str | None = wire(STRING, since=3, nullable_since=3, default=None)
    renewers: list[CreatableRenewers] = array_of(CreatableRenewers)
    max_lifetime_ms: int = wire(INT64)


class CreateDelegationTokenResponse(Message, api_key=38, versions=(1, 3), flexible_since=2):
    error_code: int = wire(INT16)
    principal_type: str = wire(STRING)
    principal_name: str = wire(STRING)
    token_requester_principal_type: str = wire(STRING, since=3)
    token_requester_principal_name: str = wire(STRING, since=3)
    issue_timestamp_ms: int = wire(INT64)
    expiry_timestamp_ms: int = wire(INT64)
    max_timestamp_ms: int = wire(INT64)
    token_id: str = wire(STRING)
    hmac: bytes = wire(BYTES)
    throttle_time_ms: int = wire(INT32)

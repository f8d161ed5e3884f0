"""The messages of describe_delegation_token, API key 41. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BYTES, INT16, INT32, INT64, STRING, Message, Struct, array_of, wire


class DescribeDelegationTokenOwner(Struct):
    principal_type: str = wire(STRING)
    principal_name: str = wire(STRING)


class DescribeDelegationTokenRequest(Message, api_key=41, versions=(1, 3), flexible_since=2):
    owners: list[DescribeDelegationTokenOwner] | None = array_of(
        DescribeDelegationTokenOwner, nullable_since=1, default=None
    )


class DescribedDelegationTokenRenewer(Struct):
    principal_type: str = wire(STRING)
    principal_name: str = wire(STRING)


class DescribedDelegationToken(Struct):
    principal_type: str = wire(STRING)
    principal_name: str = wire(STRING)
    token_requester_principal_type: str = wire(STRING, since=3)
    token_requester_principal_name: str = wire(STRING, since=3)
    issue_timestamp: int = wire(INT64)
    expiry_timestamp: int = wire(INT64)
    max_timestamp: int = wire(INT64)
    token_id: str = wire(STRING)
    hmac: bytes = wire(BYTES)
    renewers: list[DescribedDelegationTokenRenewer] = array_of(DescribedDelegationTokenRenewer)


class DescribeDelegationTokenResponse(Message, api_key=41, versions=(1, 3), flexible_since=2):
    error_code: int = wire(INT16)
    tokens: list[DescribedDelegationToken] = array_of(DescribedDelegationToken)
    throttle_time_ms: int = wire(INT32)

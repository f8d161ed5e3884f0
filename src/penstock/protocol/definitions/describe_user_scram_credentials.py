"""The messages of describe_user_scram_credentials, API key 50. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT8, INT16, INT32, STRING, Message, Struct, array_of, wire


class UserName(Struct):
    name: str = wire(STRING)


class DescribeUserScramCredentialsRequest(Message, api_key=50, versions=(0, 0), flexible_since=0):
    users: list[UserName] | None = array_of(UserName, nullable_since=0, default=None)


class CredentialInfo(Struct):
    mechanism: int = wire(INT8)
    iterations: int = wire(INT32)


class DescribeUserScramCredentialsResult(Struct):
    user: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    credential_infos: list[CredentialInfo] = array_of(CredentialInfo)


class DescribeUserScramCredentialsResponse(Message, api_key=50, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    results: list[DescribeUserScramCredentialsResult] = array_of(DescribeUserScramCredentialsResult)

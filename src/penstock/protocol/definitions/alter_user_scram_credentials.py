"""The messages of alter_user_scram_credentials, API key 51. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BYTES, INT8, INT16, INT32, STRING, Message, Struct, array_of, wire


class ScramCredentialDeletion(Struct):
    name: str = wire(STRING)
    mechanism: int = wire(INT8)


class ScramCredentialUpsertion(Struct):
    name: str = wire(STRING)
    mechanism: int = wire(INT8)
    iterations: int = wire(INT32)
    salt: bytes = wire(BYTES)
    salted_password: bytes = wire(BYTES)


class AlterUserScramCredentialsRequest(Message, api_key=51, versions=(0, 0), flexible_since=0):
    deletions: list[ScramCredentialDeletion] = array_of(ScramCredentialDeletion)
    upsertions: list[ScramCredentialUpsertion] = array_of(ScramCredentialUpsertion)


class AlterUserScramCredentialsResult(Struct):
    user: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)


class AlterUserScramCredentialsResponse(Message, api_key=51, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    results: list[AlterUserScramCredentialsResult] = array_of(AlterUserScramCredentialsResult)

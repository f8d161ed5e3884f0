"""The messages of create_acls, API key 30. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT8, INT16, INT32, STRING, Message, Struct, array_of, wire


class AclCreation(Struct):
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    resource_pattern_type: int = wire(INT8, default=3)
    principal: str = wire(STRING)
    host: str = wire(STRING)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


class CreateAclsRequest(Message, api_key=30, versions=(1, 3), flexible_since=2):
    creations: list[AclCreation] = array_of(AclCreation)


class AclCreationResult(Struct):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=1, default=None)


class CreateAclsResponse(Message, api_key=30, versions=(1, 3), flexible_since=2):
    throttle_time_ms: int = wire(INT32)
    results: list[AclCreationResult] = array_of(AclCreationResult)

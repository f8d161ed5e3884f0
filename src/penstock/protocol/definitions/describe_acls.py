"""The messages of describe_acls, API key 29. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT8, INT16, INT32, STRING, Message, Struct, array_of, wire


class DescribeAclsRequest(Message, api_key=29, versions=(1, 3), flexible_since=2):
    resource_type_filter: int = wire(INT8)
    resource_name_filter: str | None = wire(STRING, nullable_since=1, default=None)
    pattern_type_filter: int = wire(INT8, default=3)
    principal_filter: str | None = wire(STRING, nullable_since=1, default=None)
    host_filter: str | None = wire(STRING, nullable_since=1, default=None)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


class AclDescription(Struct):
    principal: str = wire(STRING)
    host: str = wire(STRING)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


class DescribeAclsResource(Struct):
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    pattern_type: int = wire(INT8, default=3)
    acls: list[AclDescription] = array_of(AclDescription)


class DescribeAclsResponse(Message, api_key=29, versions=(1, 3), flexible_since=2):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=1, default=None)
    resources: list[DescribeAclsResource] = array_of(DescribeAclsResource)

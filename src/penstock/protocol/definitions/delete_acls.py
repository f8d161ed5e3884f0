"""The messages of delete_acls, API key 31. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT8, INT16, INT32, STRING, Message, Struct, array_of, wire


class DeleteAclsFilter(Struct):
    resource_type_filter: int = wire(INT8)
    resource_name_filter: str | None = wire(STRING, nullable_since=1, default=None)
    pattern_type_filter: int = wire(INT8, default=3)
    principal_filter: str | None = wire(STRING, nullable_since=1, default=None)
    host_filter: str | None = wire(STRING, nullable_since=1, default=None)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


class DeleteAclsRequest(Message, api_key=31, versions=(1, 3), flexible_since=2):
    filters: list[DeleteAclsFilter] = array_of(DeleteAclsFilter)


class DeleteAclsMatchingAcl(Struct):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=1, default=None)
    resource_type: int = wire(INT8)
    resource_name: str = wire(STRING)
    pattern_type: int = wire(INT8, default=3)
    principal: str = wire(STRING)
    host: str = wire(STRING)
    operation: int = wire(INT8)
    permission_type: int = wire(INT8)


class DeleteAclsFilterResult(Struct):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=1, default=None)
    matching_acls: list[DeleteAclsMatchingAcl] = array_of(DeleteAclsMatchingAcl)


class DeleteAclsResponse(Message, api_key=31, versions=(1, 3), flexible_since=2):
    throttle_time_ms: int = wire(INT32)
    filter_results: list[DeleteAclsFilterResult] = array_of(DeleteAclsFilterResult)

"""The messages of delete_groups, API key 42. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, STRING, Message, Struct, array_of, wire


class DeleteGroupsRequest(Message, api_key=42, versions=(0, 2), flexible_since=2):
    groups_names: list[str] = array_of(STRING)


class DeletableGroupResult(Struct):
    group_id: str = wire(STRING)
    error_code: int = wire(INT16)


class DeleteGroupsResponse(Message, api_key=42, versions=(0, 2), flexible_since=2):
    throttle_time_ms: int = wire(INT32)
    results: list[DeletableGroupResult] = array_of(DeletableGroupResult)

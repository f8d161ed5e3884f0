"""The messages of list_groups, API key 16. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, STRING, Message, Struct, array_of, wire


class ListGroupsRequest(Message, api_key=16, versions=(0, 5), flexible_since=3):
    states_filter: list[str] = array_of(STRING, since=4)
    types_filter: list[str] = array_of(STRING, since=5)


class ListedGroup(Struct):
    group_id: str = wire(STRING)
    protocol_type: str = wire(STRING)
    group_state: str = wire(STRING, since=4)
    group_type: str = wire(STRING, since=5)


class ListGroupsResponse(Message, api_key=16, versions=(0, 5), flexible_since=3):
    throttle_time_ms: int = wire(INT32, since=1)
    error_code: int = wire(INT16)
    groups: list[ListedGroup] = array_of(ListedGroup)

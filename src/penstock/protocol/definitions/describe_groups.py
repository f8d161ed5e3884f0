"""The messages of describe_groups, API key 15. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, BYTES, INT16, INT32, STRING, Message, Struct, array_of, wire


class DescribeGroupsRequest(Message, api_key=15, versions=(0, 6), flexible_since=5):
    groups: list[str] = array_of(STRING)
    include_authorized_operations: bool = wire(BOOL, since=3)


class DescribedGroupMember(Struct):
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=4, nullable_since=4, default=None)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    member_metadata: bytes = wire(BYTES)
    member_assignment: bytes = wire(BYTES)


class DescribedGroup(Struct):
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, since=6, nullable_since=6, default=None)
    group_id: str = wire(STRING)
    group_state: str = wire(STRING)
    protocol_type: str = wire(STRING)
    protocol_data: str = wire(STRING)
    members: list[DescribedGroupMember] = array_of(DescribedGroupMember)
    authorized_operations: int = wire(INT32, since=3, default=-2147483648)


class DescribeGroupsResponse(Message, api_key=15, versions=(0, 6), flexible_since=5):
    throttle_time_ms: int = wire(INT32, since=1)
    groups: list[DescribedGroup] = array_of(DescribedGroup)

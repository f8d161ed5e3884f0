"""The messages of leave_group, API key 13. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, STRING, Message, Struct, array_of, wire


class MemberIdentity(Struct):
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, nullable_since=3, default=None)
    reason: str | None = wire(STRING, since=5, nullable_since=5, default=None)


class LeaveGroupRequest(Message, api_key=13, versions=(0, 5), flexible_since=4):
    group_id: str = wire(STRING)
    member_id: str = wire(STRING, until=2)
    members: list[MemberIdentity] = array_of(MemberIdentity, since=3)


class MemberResponse(Struct):
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, nullable_since=3, default=None)
    error_code: int = wire(INT16)


class LeaveGroupResponse(Message, api_key=13, versions=(0, 5), flexible_since=4):
    throttle_time_ms: int = wire(INT32, since=1)
    error_code: int = wire(INT16)
    members: list[MemberResponse] = array_of(MemberResponse, since=3)

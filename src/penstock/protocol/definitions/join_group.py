"""The messages of join_group, API key 11. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, BYTES, INT16, INT32, STRING, Message, Struct, array_of, wire


class JoinGroupRequestProtocol(Struct):
    name: str = wire(STRING)
    metadata: bytes = wire(BYTES)


class JoinGroupRequest(Message, api_key=11, versions=(0, 9), flexible_since=6):
    group_id: str = wire(STRING)
    session_timeout_ms: int = wire(INT32)
    rebalance_timeout_ms: int = wire(INT32, since=1, default=-1)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=5, nullable_since=5, default=None)
    protocol_type: str = wire(STRING)
    protocols: list[JoinGroupRequestProtocol] = array_of(JoinGroupRequestProtocol)
    reason: str | None = wire(STRING, since=8, nullable_since=8, default=None)


class JoinGroupResponseMember(Struct):
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=5, nullable_since=5, default=None)
    metadata: bytes = wire(BYTES)


class JoinGroupResponse(Message, api_key=11, versions=(0, 9), flexible_since=6):
    throttle_time_ms: int = wire(INT32, since=2)
    error_code: int = wire(INT16)
    generation_id: int = wire(INT32, default=-1)
    protocol_type: str | None = wire(STRING, since=7, nullable_since=7, default=None)
    protocol_name: str | None = wire(STRING, nullable_since=7)
    leader: str = wire(STRING)
    skip_assignment: bool = wire(BOOL, since=9)
    member_id: str = wire(STRING)
    members: list[JoinGroupResponseMember] = array_of(JoinGroupResponseMember)

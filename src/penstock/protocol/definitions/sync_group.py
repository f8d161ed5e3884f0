"""The messages of sync_group, API key 14. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BYTES, INT16, INT32, STRING, Message, Struct, array_of, wire


class SyncGroupRequestAssignment(Struct):
    member_id: str = wire(STRING)
    assignment: bytes = wire(BYTES)


class SyncGroupRequest(Message, api_key=14, versions=(0, 5), flexible_since=4):
    group_id: str = wire(STRING)
    generation_id: int = wire(INT32)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=3, nullable_since=3, default=None)
    protocol_type: str | None = wire(STRING, since=5, nullable_since=5, default=None)
    protocol_name: str | None = wire(STRING, since=5, nullable_since=5, default=None)
    assignments: list[SyncGroupRequestAssignment] = array_of(SyncGroupRequestAssignment)


class SyncGroupResponse(Message, api_key=14, versions=(0, 5), flexible_since=4):
    throttle_time_ms: int = wire(INT32, since=1)
    error_code: int = wire(INT16)
    protocol_type: str | None = wire(STRING, since=5, nullable_since=5, default=None)
    protocol_name: str | None = wire(STRING, since=5, nullable_since=5, default=None)
    assignment: bytes = wire(BYTES)

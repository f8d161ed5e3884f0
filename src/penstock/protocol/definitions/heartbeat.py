"""The messages of heartbeat, API key 12. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, STRING, Message, wire


class HeartbeatRequest(Message, api_key=12, versions=(0, 4), flexible_since=4):
    group_id: str = wire(STRING)
    generation_id: int = wire(INT32)
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=3, nullable_since=3, default=None)


class HeartbeatResponse(Message, api_key=12, versions=(0, 4), flexible_since=4):
    throttle_time_ms: int = wire(INT32, since=1)
    error_code: int = wire(INT16)

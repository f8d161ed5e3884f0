"""The messages of broker_heartbeat, API key 63. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT16, INT32, INT64, UUID, Message, array_of, wire


class BrokerHeartbeatRequest(Message, api_key=63, versions=(0, 2), flexible_since=0):
    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64, default=-1)
    current_metadata_offset: int = wire(INT64)
    want_fence: bool = wire(BOOL)
    want_shut_down: bool = wire(BOOL)
    offline_log_dirs: list[bytes] = array_of(UUID, since=1, tag=0)
    cordoned_log_dirs: list[bytes] | None = array_of(UUID, since=2, nullable_since=2, tag=1, default=None)


class BrokerHeartbeatResponse(Message, api_key=63, versions=(0, 2), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    is_caught_up: bool = wire(BOOL)
    is_fenced: bool = wire(BOOL, default=True)
    should_shut_down: bool = wire(BOOL)

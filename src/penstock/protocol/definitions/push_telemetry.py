"""The messages of push_telemetry, API key 72. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, BYTES, INT8, INT16, INT32, UUID, Message, wire


class PushTelemetryRequest(Message, api_key=72, versions=(0, 0), flexible_since=0):
    client_instance_id: bytes = wire(UUID)
    subscription_id: int = wire(INT32)
    terminating: bool = wire(BOOL)
    compression_type: int = wire(INT8)
    metrics: bytes = wire(BYTES)


class PushTelemetryResponse(Message, api_key=72, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)

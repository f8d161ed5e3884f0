"""The messages of get_telemetry_subscriptions, API key 71. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT8, INT16, INT32, STRING, UUID, Message, array_of, wire


class GetTelemetrySubscriptionsRequest(Message, api_key=71, versions=(0, 0), flexible_since=0):
    client_instance_id: bytes = wire(UUID)


class GetTelemetrySubscriptionsResponse(Message, api_key=71, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    client_instance_id: bytes = wire(UUID)
    subscription_id: int = wire(INT32)
    accepted_compression_types: list[int] = array_of(INT8)
    push_interval_ms: int = wire(INT32)
    telemetry_max_bytes: int = wire(INT32)
    delta_temporality: bool = wire(BOOL)
    requested_metrics: list[str] = array_of(STRING)

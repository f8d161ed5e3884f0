"""The messages of broker_registration, API key 62. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT16, INT32, INT64, STRING, UINT16, UUID, Message, Struct, array_of, wire


class Listener(Struct):
    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)
    security_protocol: int = wire(INT16)


class Feature(Struct):
    name: str = wire(STRING)
    min_supported_version: int = wire(INT16)
    max_supported_version: int = wire(INT16)


class BrokerRegistrationRequest(Message, api_key=62, versions=(0, 4), flexible_since=0):
    broker_id: int = wire(INT32)
    cluster_id: str = wire(STRING)
    incarnation_id: bytes = wire(UUID)
    listeners: list[Listener] = array_of(Listener)
    features: list[Feature] = array_of(Feature)
    rack: str | None = wire(STRING, nullable_since=0, default=None)
    is_migrating_zk_broker: bool = wire(BOOL, since=1)
    log_dirs: list[bytes] = array_of(UUID, since=2)
    previous_broker_epoch: int = wire(INT64, since=3, default=-1)


class BrokerRegistrationResponse(Message, api_key=62, versions=(0, 4), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    broker_epoch: int = wire(INT64, default=-1)

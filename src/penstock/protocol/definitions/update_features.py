"""The messages of update_features, API key 57. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT8, INT16, INT32, STRING, Message, Struct, array_of, wire


class FeatureUpdateKey(Struct):
    feature: str = wire(STRING)
    max_version_level: int = wire(INT16)
    allow_downgrade: bool = wire(BOOL, until=0)
    upgrade_type: int = wire(INT8, since=1, default=1)


class UpdateFeaturesRequest(Message, api_key=57, versions=(0, 2), flexible_since=0):
    timeout_ms: int = wire(INT32, default=60000)
    feature_updates: list[FeatureUpdateKey] = array_of(FeatureUpdateKey)
    validate_only: bool = wire(BOOL, since=1)


class UpdatableFeatureResult(Struct):
    feature: str = wire(STRING)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)


class UpdateFeaturesResponse(Message, api_key=57, versions=(0, 2), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    results: list[UpdatableFeatureResult] = array_of(UpdatableFeatureResult, until=1)

"""The messages of api_versions, API key 18. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT16, INT32, INT64, STRING, Message, Struct, array_of, wire


class ApiVersionsRequest(Message, api_key=18, versions=(0, 4), flexible_since=3):
    client_software_name: str = wire(STRING, since=3)
    client_software_version: str = wire(STRING, since=3)


class ApiVersion(Struct):
    api_key: int = wire(INT16)
    min_version: int = wire(INT16)
    max_version: int = wire(INT16)


class SupportedFeatureKey(Struct):
    name: str = wire(STRING)
    min_version: int = wire(INT16)
    max_version: int = wire(INT16)


class FinalizedFeatureKey(Struct):
    name: str = wire(STRING)
    max_version_level: int = wire(INT16)
    min_version_level: int = wire(INT16)


class ApiVersionsResponse(Message, api_key=18, versions=(0, 4), flexible_since=3):
    error_code: int = wire(INT16)
    api_keys: list[ApiVersion] = array_of(ApiVersion)
    throttle_time_ms: int = wire(INT32, since=1)
    supported_features: list[SupportedFeatureKey] = array_of(SupportedFeatureKey, since=3, tag=0)
    finalized_features_epoch: int = wire(INT64, since=3, tag=1, default=-1)
    finalized_features: list[FinalizedFeatureKey] = array_of(FinalizedFeatureKey, since=3, tag=2)
    zk_migration_ready: bool = wire(BOOL, since=3, tag=3)

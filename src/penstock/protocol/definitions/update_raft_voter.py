"""The messages of update_raft_voter, API key 82. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, STRING, UINT16, UUID, Message, Struct, array_of, wire


class Listener(Struct):
    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)


class KRaftVersionFeature(Struct):
    min_supported_version: int = wire(INT16)
    max_supported_version: int = wire(INT16)


class UpdateRaftVoterRequest(Message, api_key=82, versions=(0, 0), flexible_since=0):
    cluster_id: str | None = wire(STRING, nullable_since=0, default=None)
    current_leader_epoch: int = wire(INT32)
    voter_id: int = wire(INT32)
    voter_directory_id: bytes = wire(UUID)
    listeners: list[Listener] = array_of(Listener)
    k_raft_version_feature: KRaftVersionFeature = wire(KRaftVersionFeature)


class CurrentLeader(Struct):
    leader_id: int = wire(INT32, default=-1)
    leader_epoch: int = wire(INT32, default=-1)
    host: str = wire(STRING)
    port: int = wire(INT32)


class UpdateRaftVoterResponse(Message, api_key=82, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    current_leader: CurrentLeader | None = wire(CurrentLeader, tag=0, default=None)

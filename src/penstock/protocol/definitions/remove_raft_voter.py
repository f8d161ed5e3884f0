"""The messages of remove_raft_voter, API key 81. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, STRING, UUID, Message, wire


class RemoveRaftVoterRequest(Message, api_key=81, versions=(0, 0), flexible_since=0):
    cluster_id: str | None = wire(STRING, nullable_since=0, default=None)
    voter_id: int = wire(INT32)
    voter_directory_id: bytes = wire(UUID)


class RemoveRaftVoterResponse(Message, api_key=81, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)

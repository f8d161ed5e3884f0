"""The messages of add_raft_voter, API key 80. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT16, INT32, STRING, UINT16, UUID, Message, Struct, array_of, wire


class Listener(Struct):
    name: str = wire(STRING)
    host: str = wire(STRING)
    port: int = wire(UINT16)


class AddRaftVoterRequest(Message, api_key=80, versions=(0, 1), flexible_since=0):
    cluster_id: str | None = wire(STRING, nullable_since=0, default=None)
    timeout_ms: int = wire(INT32)
    voter_id: int = wire(INT32)
    voter_directory_id: bytes = wire(UUID)
    listeners: list[Listener] = array_of(Listener)
    ack_when_committed: bool = wire(BOOL, since=1, default=True)


class AddRaftVoterResponse(Message, api_key=80, versions=(0, 1), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)

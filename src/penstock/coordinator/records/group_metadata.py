"""A classic group: its generation, and its members with their assignments."""

from __future__ import annotations

from typing import Final

from penstock.coordinator.records.codec import RecordKind
from penstock.protocol.schema import BYTES, INT32, INT64, STRING, Message, Struct, array_of, wire


class GroupMetadataKey(Message, versions=(0, 0)):
    group: str = wire(STRING)


class MemberMetadata(Struct):
    member_id: str = wire(STRING)
    group_instance_id: str | None = wire(STRING, since=3, nullable_since=3, default=None)
    client_id: str = wire(STRING)
    client_host: str = wire(STRING)
    rebalance_timeout: int = wire(INT32, since=1, default=-1)
    session_timeout: int = wire(INT32)
    subscription: bytes = wire(BYTES)
    assignment: bytes = wire(BYTES)


class GroupMetadataValue(Message, versions=(0, 4), flexible_since=4):
    protocol_type: str = wire(STRING)
    generation: int = wire(INT32)
    protocol: str | None = wire(STRING, nullable_since=0)
    leader: str | None = wire(STRING, nullable_since=0)
    current_state_timestamp: int = wire(INT64, since=2, default=-1)
    members: list[MemberMetadata] = array_of(MemberMetadata)


GROUP_METADATA: Final = RecordKind(2, GroupMetadataKey, GroupMetadataValue, value_version=3)

"""The record of a classic group: its generation, and its members with their assignments."""

from __future__ import annotations

from typing import Final

from penstock.coordinator.classic_messages import GroupSnapshot, MemberSnapshot
from penstock.coordinator.records.codec import CoordinatorRecord, RecordKind
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


def snapshot_record(snapshot: GroupSnapshot) -> CoordinatorRecord:
    return GROUP_METADATA.record(
        GroupMetadataKey(group=snapshot.group_id),
        GroupMetadataValue(
            protocol_type=snapshot.protocol_type,
            generation=snapshot.generation_id,
            protocol=snapshot.protocol_name,
            leader=snapshot.leader_id,
            current_state_timestamp=snapshot.state_timestamp_ms,
            members=[
                MemberMetadata(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    rebalance_timeout=member.rebalance_timeout_ms,
                    session_timeout=member.session_timeout_ms,
                    subscription=member.subscription,
                    assignment=member.assignment,
                )
                for member in snapshot.members
            ],
        ),
    )


def snapshot_tombstone(group_id: str) -> CoordinatorRecord:
    return GROUP_METADATA.tombstone(GroupMetadataKey(group=group_id))


def read_snapshot(key: bytes, value: bytes | None) -> tuple[str, GroupSnapshot | None]:
    """The group's id, and its snapshot; None for a tombstone."""
    group_id = GROUP_METADATA.read_key(key).group
    if value is None:
        return group_id, None
    message = GROUP_METADATA.read_value(value)
    members = tuple(
        MemberSnapshot(
            member_id=member.member_id,
            instance_id=member.group_instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout_ms=member.rebalance_timeout,
            session_timeout_ms=member.session_timeout,
            subscription=member.subscription,
            assignment=member.assignment,
        )
        for member in message.members
    )
    return group_id, GroupSnapshot(
        group_id=group_id,
        protocol_type=message.protocol_type,
        generation_id=message.generation,
        protocol_name=message.protocol,
        leader_id=message.leader,
        state_timestamp_ms=message.current_state_timestamp,
        members=members,
    )

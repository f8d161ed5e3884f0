"""Requests to classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and describing a group.

What a group makes of them is `coordinator/classic_group.py`'s, and for classic members of a group of the newer protocol
`coordinator/classic_members.py`'s; here is only what happens before there is a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from penstock.broker.groups.reply import GroupReply
from penstock.broker.groups.shard import GroupShard
from penstock.broker.groups.traits import Group, tombstones
from penstock.coordinator import classic_members
from penstock.coordinator.classic_group import ClassicGroup
from penstock.coordinator.classic_messages import (
    UNKNOWN_MEMBER,
    GroupDescription,
    JoinRequest,
    LeavingMember,
    SyncRequest,
)
from penstock.coordinator.consumer_group import ConsumerGroup
from penstock.protocol.error_codes import BrokerError, ErrorCode

if TYPE_CHECKING:
    from penstock.broker.groups.coordinator import GroupCoordinator


class ClassicGroups:
    """Each request raises BrokerError where there is no group to ask; the group's own answers come by the reply."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator

    def join(self, group_id: str, request: JoinRequest, reply: GroupReply) -> None:
        _check_group_id(group_id)
        shard = self._coordinator.shard(group_id)
        mixed = shard.groups.get(group_id)
        if isinstance(mixed, ConsumerGroup) and not mixed.is_empty:
            self._coordinator.classic_settings.check_session_timeout(request.session_timeout_ms)
            result, changes = classic_members.join(
                mixed, request, self._coordinator.new_uuid, self._coordinator.now_ms()
            )
            self._coordinator.consumers.write(shard, mixed, changes)
            shard.answer(reply, result)
            return
        group = self._group_to_join(shard, group_id, request)
        effects = group.join(request, reply, self._coordinator.now_ms())
        self._coordinator.carry_out(shard, group, effects)

    def sync(self, group_id: str, request: SyncRequest, reply: GroupReply) -> None:
        _check_group_id(group_id)
        shard, group = self._member_group(group_id)
        now_ms = self._coordinator.now_ms()
        if isinstance(group, ConsumerGroup):
            try:
                shard.answer(reply, classic_members.sync(group, request, now_ms))
            finally:
                self._coordinator.watch(group)
            return
        self._coordinator.carry_out(shard, group, group.sync(request, reply, now_ms))

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation_id: int) -> None:
        _check_group_id(group_id)
        _, group = self._member_group(group_id)
        now_ms = self._coordinator.now_ms()
        if isinstance(group, ConsumerGroup):
            try:
                classic_members.heartbeat(group, member_id, instance_id, generation_id, now_ms)
            finally:
                self._coordinator.watch(group)
            return
        group.heartbeat(member_id, instance_id, generation_id, now_ms)

    def leave(self, group_id: str, members: Sequence[LeavingMember], reply: GroupReply) -> None:
        _check_group_id(group_id)
        shard, group = self._member_group(group_id)
        if isinstance(group, ConsumerGroup):
            results, changes = classic_members.leave(group, members)
            self._coordinator.consumers.write(shard, group, changes)
            shard.answer(reply, results)
            return
        self._coordinator.carry_out(shard, group, group.leave(members, reply, self._coordinator.now_ms()))

    def describe(self, group_id: str) -> GroupDescription:
        """GROUP_ID_NOT_FOUND where there is none, or one of the newer protocol."""
        group = self._coordinator.shard_to_read(group_id).groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            reason = "is not a classic group" if group is not None else "not found"
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {reason}.")
        return group.describe()

    def _group_to_join(self, shard: GroupShard, group_id: str, request: JoinRequest) -> ClassicGroup:
        """An empty group of the newer protocol becomes a classic one and keeps its offsets."""
        former = shard.groups.get(group_id)
        if isinstance(former, ClassicGroup):
            return former
        if request.member_id != UNKNOWN_MEMBER:
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
        if former is not None:
            shard.append(tombstones(former))
            self._coordinator.forget(shard, former)
        group = shard.groups[group_id] = self._coordinator.new_classic_group(group_id)
        return group

    def _member_group(self, group_id: str) -> tuple[GroupShard, Group]:
        """UNKNOWN_MEMBER_ID where there is no such group: then there is no such member either."""
        shard = self._coordinator.shard_to_read(group_id)
        group = shard.groups.get(group_id)
        if group is None:
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
        return shard, group


def _check_group_id(group_id: str) -> None:
    if not group_id:
        raise BrokerError(ErrorCode.INVALID_GROUP_ID, "A group with members needs a name.")

"""Rebalances of a classic group: its state, its generation, its deadlines, and the responses that wait for them.

    Empty -> PreparingRebalance    a member joins; the initial rebalance waits for more members
    PreparingRebalance             collects joins until all members have joined or the rebalance timeout expires
      -> CompletingRebalance       a new generation: joins are answered, and the leader computes the assignment
      -> Empty                     no members are left
    CompletingRebalance -> Stable  the leader has sent the assignment; syncs are answered
    Stable, CompletingRebalance -> PreparingRebalance      a member joins, leaves or changes its subscription
    any -> Dead                    the group was deleted or moved to another coordinator

It knows members and responses, but not requests: `classic_group.py` decides which of them are allowed.

Invariants: the generation only grows; a token is answered once; `tick(now_ms)` leaves no deadline before `now_ms`. The
next deadline is a lower bound (a heartbeat extends a member's deadline, not this one), so a tick may find nothing to
do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import Final

from penstock.coordinator.classic_member import ClassicMember
from penstock.coordinator.classic_membership import Membership
from penstock.coordinator.classic_messages import (
    UNKNOWN_MEMBER,
    ClassicGroupState,
    Effect,
    GroupChanged,
    GroupSnapshot,
    JoinedMember,
    JoinReply,
    JoinResult,
    ReplyToken,
    SyncReply,
    SyncResult,
)
from penstock.protocol.error_codes import ErrorCode

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""How long a new member may wait for its first join. It cannot heartbeat before, so this is how a lost client is
detected; a live client retries."""


@dataclass(slots=True)
class _InitialDelay:
    """`group.initial.rebalance.delay.ms`: extended while members keep joining, up to their rebalance timeout."""

    round_ms: int
    remaining_ms: int
    has_new_member: bool = False


class Rebalance:
    def __init__(self, group_id: str, membership: Membership, initial_delay_ms: int) -> None:
        self.group_id = group_id
        self.membership = membership
        self.state = ClassicGroupState.EMPTY
        self.state_timestamp_ms: int | None = None
        self.generation_id = 0
        self.protocol_name: str | None = None
        self._initial_delay_ms = initial_delay_ms
        self._initial: _InitialDelay | None = None
        self._join_deadline_ms: int | None = None
        self._sync_deadline_ms: int | None = None
        self._wake_at_ms: int | None = None
        self._effects: list[Effect] = []

    # Membership

    def add(self, member: ClassicMember, protocol_type: str, token: ReplyToken, now_ms: int) -> None:
        if self._initial is not None:
            self._initial.has_new_member = True
        self.membership.add(member, protocol_type)
        self.membership.await_join(member, token)
        self._expire_at(member, now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
        self.begin_or_continue(now_ms)

    def add_pending(self, member_id: str, until_ms: int) -> None:
        self.membership.pending_members[member_id] = until_ms
        self._wake_by(until_ms)

    def remove_pending(self, member_id: str, now_ms: int) -> None:
        """An active rebalance may have waited only for this member; otherwise no rebalance is needed."""
        del self.membership.pending_members[member_id]
        self.complete_if_all_joined(now_ms)

    def remove(self, member: ClassicMember, error: ErrorCode = ErrorCode.UNKNOWN_MEMBER_ID) -> None:
        self.refuse_waiting(member, error, UNKNOWN_MEMBER)
        self.membership.remove(member)

    def keep_alive(self, member: ClassicMember, now_ms: int) -> None:
        self._expire_at(member, now_ms + member.session_timeout_ms)

    def await_join(self, member: ClassicMember, token: ReplyToken) -> None:
        """Supersedes an earlier join of the same member, whose client has abandoned it or must not rely on it."""
        self._refuse_join(member, ErrorCode.REBALANCE_IN_PROGRESS, member.member_id)
        self.membership.await_join(member, token)

    def await_sync(self, member: ClassicMember, token: ReplyToken) -> None:
        self._refuse_sync(member, ErrorCode.REBALANCE_IN_PROGRESS)
        member.sync_token = token
        member.awaits_sync = False

    def refuse_waiting(self, member: ClassicMember, error: ErrorCode, member_id: str) -> None:
        self._refuse_join(member, error, member_id)
        self._refuse_sync(member, error)

    # Phases

    def begin_or_continue(self, now_ms: int) -> None:
        if self.state is ClassicGroupState.PREPARING_REBALANCE:
            self.complete_if_all_joined(now_ms)
        else:
            self.begin(now_ms)

    def begin(self, now_ms: int) -> None:
        is_initial = self.state is ClassicGroupState.EMPTY
        is_unassigned = self.state is ClassicGroupState.COMPLETING_REBALANCE
        self._sync_deadline_ms = None
        for member in self.membership.members.values():
            member.awaits_sync = False
            if is_unassigned:
                member.assignment = b""
            if self._refuse_sync(member, ErrorCode.REBALANCE_IN_PROGRESS):
                self.keep_alive(member, now_ms)
        self._enter(ClassicGroupState.PREPARING_REBALANCE, now_ms)
        if is_initial:
            remaining_ms = max(0, self.membership.rebalance_timeout_ms - self._initial_delay_ms)
            self._initial = _InitialDelay(self._initial_delay_ms, remaining_ms)
            self._wait_for_joins_until(now_ms + self._initial_delay_ms)
        elif self.membership.all_have_joined:
            self._complete_join(now_ms)
        else:
            self._wait_for_joins_until(now_ms + self.membership.rebalance_timeout_ms)

    def complete_if_all_joined(self, now_ms: int) -> None:
        """The initial rebalance always waits for its delay: future members are unknown."""
        is_collecting = self.state is ClassicGroupState.PREPARING_REBALANCE and self._initial is None
        if is_collecting and self.membership.all_have_joined:
            self._complete_join(now_ms)

    def assign(self, assignments: Mapping[str, bytes], now_ms: int) -> None:
        """The leader's assignment. Members that it omits get an empty one."""
        self._enter(ClassicGroupState.STABLE, now_ms)
        for member in self.membership.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        self.persist()
        for member in self.membership.members.values():
            if member.sync_token is not None:
                token, member.sync_token = member.sync_token, None
                self.emit(SyncReply(token, self.synced(member)))
                self.keep_alive(member, now_ms)

    def die(self, error: ErrorCode, now_ms: int) -> None:
        self._enter(ClassicGroupState.DEAD, now_ms)
        for member in self.membership.members.values():
            self.refuse_waiting(member, error, member.member_id)
        self._join_deadline_ms = self._sync_deadline_ms = self._wake_at_ms = None

    def _complete_join(self, now_ms: int) -> None:
        """Removes dynamic members that did not join. Static ones stay until their session expires (KIP-345)."""
        self._initial = None
        self._join_deadline_ms = None
        for member in list(self.membership.members.values()):
            if member.join_token is None and member.instance_id is None:
                self.remove(member)
        if self.membership.members and not self.membership.elect_joined_leader():
            # Only absent static members are left: there is no leader until one returns or all have expired.
            self._wait_for_joins_until(now_ms + self.membership.rebalance_timeout_ms)
            return
        self.generation_id += 1
        if not self.membership.members:
            self.protocol_name = None
            self._enter(ClassicGroupState.EMPTY, now_ms)
            self.persist()
            return
        self.protocol_name = self.membership.select_protocol()
        self._enter(ClassicGroupState.COMPLETING_REBALANCE, now_ms)
        for member in self.membership.members.values():
            token = self.membership.take_join_token(member)
            if token is not None:
                self.emit(JoinReply(token, self.joined(member)))
            member.is_new = False
            member.awaits_sync = True
            self.keep_alive(member, now_ms)
        self._sync_deadline_ms = now_ms + self.membership.rebalance_timeout_ms
        self._wake_by(self._sync_deadline_ms)

    def _enter(self, state: ClassicGroupState, now_ms: int) -> None:
        self.state = state
        self.state_timestamp_ms = now_ms

    # Responses

    def joined(self, member: ClassicMember) -> JoinResult:
        """The current generation, as the response to a member that has joined it."""
        is_leader = self.membership.is_leader(member)
        return JoinResult(
            error=ErrorCode.NONE,
            member_id=member.member_id,
            generation_id=self.generation_id,
            protocol_type=self.membership.protocol_type,
            protocol_name=self.protocol_name,
            leader_id=self.membership.leader_id or UNKNOWN_MEMBER,
            members=self._all_joined_members() if is_leader else (),
        )

    def synced(self, member: ClassicMember) -> SyncResult:
        return SyncResult(ErrorCode.NONE, self.membership.protocol_type, self.protocol_name, member.assignment)

    def persist(self) -> None:
        self.emit(GroupChanged(self.snapshot()))

    def snapshot(self) -> GroupSnapshot:
        return GroupSnapshot(
            group_id=self.group_id,
            protocol_type=self.membership.protocol_type or "",
            generation_id=self.generation_id,
            protocol_name=self.protocol_name,
            leader_id=self.membership.leader_id,
            state_timestamp_ms=-1 if self.state_timestamp_ms is None else self.state_timestamp_ms,
            members=tuple(member.snapshot(self.protocol_name) for member in self.membership.members.values()),
        )

    def emit(self, effect: Effect) -> None:
        self._effects.append(effect)

    def take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    def _all_joined_members(self) -> tuple[JoinedMember, ...]:
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(self.protocol_name))
            for member in self.membership.members.values()
        )

    def _refuse_join(self, member: ClassicMember, error: ErrorCode, member_id: str) -> None:
        token = self.membership.take_join_token(member)
        if token is not None:
            self.emit(JoinReply(token, JoinResult(error, member_id)))

    def _refuse_sync(self, member: ClassicMember, error: ErrorCode) -> bool:
        token, member.sync_token = member.sync_token, None
        if token is not None:
            self.emit(SyncReply(token, SyncResult(error)))
        return token is not None

    # Deadlines

    def next_deadline_ms(self) -> int | None:
        return self._wake_at_ms

    def tick(self, now_ms: int) -> None:
        while self._wake_at_ms is not None and self._wake_at_ms <= now_ms:
            # Each checks again whether it is still due: an earlier one may have changed that.
            for _, expire in sorted(self._due(now_ms), key=itemgetter(0)):
                expire(now_ms)
            self._wake_at_ms = min((deadline_ms for deadline_ms, _ in self._deadlines()), default=None)

    def _due(self, now_ms: int) -> list[tuple[int, Callable[[int], None]]]:
        return [deadline for deadline in self._deadlines() if deadline[0] <= now_ms]

    def _deadlines(self) -> Iterator[tuple[int, Callable[[int], None]]]:
        if self.state is ClassicGroupState.DEAD:
            return
        for member in self.membership.members.values():
            deadline_ms = member.session_deadline_ms
            if deadline_ms is not None:
                yield deadline_ms, partial(self._expire_session, member)
        for member_id, until_ms in self.membership.pending_members.items():
            yield until_ms, partial(self.remove_pending, member_id)
        if self._join_deadline_ms is not None:
            yield self._join_deadline_ms, self._expire_join
        if self._sync_deadline_ms is not None:
            yield self._sync_deadline_ms, self._expire_sync

    def _expire_session(self, member: ClassicMember, now_ms: int) -> None:
        deadline_ms = member.session_deadline_ms
        if member.member_id in self.membership.members and deadline_ms is not None and deadline_ms <= now_ms:
            self.remove(member)
            self.begin_or_continue(now_ms)

    def _expire_join(self, now_ms: int) -> None:
        if self._join_deadline_ms is None or self._join_deadline_ms > now_ms:
            return
        initial = self._initial
        if initial is not None and initial.has_new_member and initial.remaining_ms > 0:
            next_round_ms = min(self._initial_delay_ms, initial.remaining_ms)
            remaining_ms = max(0, initial.remaining_ms - initial.round_ms)
            self._initial = _InitialDelay(next_round_ms, remaining_ms)
            self._wait_for_joins_until(now_ms + next_round_ms)
        else:
            self._complete_join(now_ms)

    def _expire_sync(self, now_ms: int) -> None:
        """Removes members that received the generation and did not request their assignment."""
        if self._sync_deadline_ms is None or self._sync_deadline_ms > now_ms:
            return
        self._sync_deadline_ms = None
        missing = [member for member in self.membership.members.values() if member.awaits_sync]
        for member in missing:
            self.remove(member)
        if missing:
            self.begin(now_ms)

    def _expire_at(self, member: ClassicMember, deadline_ms: int) -> None:
        member.expires_at_ms = deadline_ms
        self._wake_by(deadline_ms)

    def _wait_for_joins_until(self, deadline_ms: int) -> None:
        self._join_deadline_ms = deadline_ms
        self._wake_by(deadline_ms)

    def _wake_by(self, deadline_ms: int) -> None:
        if self._wake_at_ms is None or deadline_ms < self._wake_at_ms:
            self._wake_at_ms = deadline_ms

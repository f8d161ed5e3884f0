"""A classic consumer group: join, sync, heartbeat, leave and commit, with Kafka's rules and error codes.

A pure state machine. Each request is a call with the current time and returns an ordered list of effects
(`classic_messages.py`). A response that must wait is an effect of a later call, under the token of its request. The
caller calls `tick` at `next_deadline_ms`. `classic_rebalance.py` owns the generations, `classic_membership.py` the
members.

Subscriptions and assignments are opaque, so any kind of member works: consumers with the eager or the cooperative
protocol, Connect's workers. A cooperative rebalance is a series of ordinary ones.

Invariant: every token is answered exactly once, at the latest by `close`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed

from penstock.coordinator.classic_member import ClassicMember
from penstock.coordinator.classic_membership import Membership
from penstock.coordinator.classic_messages import (
    UNKNOWN_MEMBER,
    ClassicGroupState,
    Effect,
    GroupDescription,
    GroupSnapshot,
    JoinReply,
    JoinRequest,
    JoinResult,
    LeaveReply,
    LeaveResult,
    LeavingMember,
    OffsetRetention,
    ReplyToken,
    SyncReply,
    SyncRequest,
    SyncResult,
)
from penstock.coordinator.classic_rebalance import Rebalance
from penstock.coordinator.classic_subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from penstock.protocol.error_codes import BrokerError, ErrorCode


@dataclass(frozen=True, slots=True)
class ClassicGroupSettings:
    """The broker's `group.*` settings, with Kafka's defaults."""

    initial_rebalance_delay_ms: int = 3_000
    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    size_max: int = 2**31 - 1

    def check_session_timeout(self, session_timeout_ms: int) -> None:
        if not self.session_timeout_ms_min <= session_timeout_ms <= self.session_timeout_ms_max:
            raise BrokerError(ErrorCode.INVALID_SESSION_TIMEOUT)


class ClassicGroup:
    def __init__(self, group_id: str, settings: ClassicGroupSettings, new_uuid: Callable[[], str]) -> None:
        """`new_uuid` makes member ids unique; it is the only source of randomness."""
        self.group_id = group_id
        self._settings = settings
        self._new_uuid = new_uuid
        self._membership = Membership()
        self._rebalance = Rebalance(group_id, self._membership, settings.initial_rebalance_delay_ms)

    @classmethod
    def restore(
        cls, snapshot: GroupSnapshot, settings: ClassicGroupSettings, new_uuid: Callable[[], str], now_ms: int
    ) -> ClassicGroup:
        """The group of its last record. Its members have a full session timeout to find this coordinator."""
        group = cls(snapshot.group_id, settings, new_uuid)
        membership, rebalance = group._membership, group._rebalance
        membership.protocol_type = snapshot.protocol_type or None
        for saved in snapshot.members:
            member = ClassicMember.restored(saved, snapshot.protocol_name or "")
            membership.add(member, snapshot.protocol_type)
            rebalance.keep_alive(member, now_ms)
        if snapshot.leader_id in membership.members:
            membership.leader_id = snapshot.leader_id
        rebalance.generation_id = snapshot.generation_id
        rebalance.protocol_name = snapshot.protocol_name
        rebalance.state_timestamp_ms = None if snapshot.state_timestamp_ms == -1 else snapshot.state_timestamp_ms
        rebalance.state = ClassicGroupState.STABLE if membership.members else ClassicGroupState.EMPTY
        if len(membership.members) > settings.size_max:
            # The limit was lowered: the members must rejoin, and the last of them find the group full.
            rebalance.begin(now_ms)
        return group

    def snapshot(self) -> GroupSnapshot:
        return self._rebalance.snapshot()

    # JoinGroup

    def join(self, request: JoinRequest, reply: ReplyToken, now_ms: int) -> list[Effect]:
        try:
            self._join(request, reply, now_ms)
        except BrokerError as error:
            member_id = UNKNOWN_MEMBER if error.code is ErrorCode.GROUP_MAX_SIZE_REACHED else request.member_id
            self._rebalance.emit(JoinReply(reply, JoinResult(error.code, member_id)))
        return self._rebalance.take_effects()

    def _join(self, request: JoinRequest, reply: ReplyToken, now_ms: int) -> None:
        self._settings.check_session_timeout(request.session_timeout_ms)
        self._check_alive()
        self._check_size(request.member_id, now_ms)
        if not self._membership.supports(request.protocol_type, request.protocols):
            raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if request.member_id == UNKNOWN_MEMBER:
            self._join_without_member_id(request, reply, now_ms)
        elif request.member_id in self._membership.pending_members and request.instance_id is None:
            self._add(request.member_id, request, reply, now_ms)
        else:
            member = self._membership.find(request.member_id, request.instance_id)
            self._join_again(member, request, reply, now_ms)

    def _check_size(self, member_id: str, now_ms: int) -> None:
        """During a rebalance only members that have rejoined count, so the last to rejoin are refused."""
        member = self._membership.members.get(member_id)
        if self.state is ClassicGroupState.PREPARING_REBALANCE:
            is_inside = member is not None and member.join_token is not None
            size = self._membership.awaiting_join_count
        else:
            is_inside = member is not None
            size = len(self._membership.members)
        if is_inside or self.state is ClassicGroupState.EMPTY or size < self._settings.size_max:
            return
        if member is not None:
            self._rebalance.remove(member)
            self._rebalance.complete_if_all_joined(now_ms)
        elif member_id in self._membership.pending_members:
            self._rebalance.remove_pending(member_id, now_ms)
        raise BrokerError(ErrorCode.GROUP_MAX_SIZE_REACHED)

    def _join_without_member_id(self, request: JoinRequest, reply: ReplyToken, now_ms: int) -> None:
        member_id = f"{request.instance_id or request.client_id}-{self._new_uuid()}"
        known = self._membership.static_member(request.instance_id)
        if known is not None:
            self._return_static(known, member_id, request, reply, now_ms)
        elif request.needs_member_id_first:
            self._rebalance.add_pending(member_id, now_ms + request.session_timeout_ms)
            self._rebalance.emit(JoinReply(reply, JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id)))
        else:
            self._add(member_id, request, reply, now_ms)

    def _add(self, member_id: str, request: JoinRequest, reply: ReplyToken, now_ms: int) -> None:
        self._rebalance.add(ClassicMember.joining(member_id, request), request.protocol_type, reply, now_ms)

    def _join_again(self, member: ClassicMember, request: JoinRequest, reply: ReplyToken, now_ms: int) -> None:
        """A member that joins unchanged gets the current generation again: it may have missed the response.

        A leader that joins a stable group always starts a rebalance: it does so when topics have changed.
        """
        is_unchanged = request.protocols == member.protocols
        is_settled = self.state is ClassicGroupState.COMPLETING_REBALANCE or (
            self.state is ClassicGroupState.STABLE and not self._membership.is_leader(member)
        )
        if is_settled and is_unchanged:
            self._rebalance.emit(JoinReply(reply, self._rebalance.joined(member)))
            return
        self._update(member, request)
        self._rebalance.await_join(member, reply)
        self._rebalance.begin_or_continue(now_ms)

    def _update(self, member: ClassicMember, request: JoinRequest) -> None:
        self._membership.change_protocols(member, request.protocols)
        member.session_timeout_ms = request.session_timeout_ms
        member.rebalance_timeout_ms = request.join_timeout_ms

    def _return_static(
        self, member: ClassicMember, member_id: str, request: JoinRequest, reply: ReplyToken, now_ms: int
    ) -> None:
        """The instance was restarted. A stable group does not rebalance if its protocol stays the same."""
        former_leader_id = self._membership.leader_id
        self._rebalance.refuse_waiting(member, ErrorCode.FENCED_INSTANCE_ID, member.member_id)
        self._membership.rename_static(member, member_id)
        member.is_new = False
        self._update(member, request)
        self._rebalance.keep_alive(member, now_ms)
        if self.state is not ClassicGroupState.STABLE or self._membership.select_protocol() != self.protocol_name:
            # The leader may be computing an assignment for the former member id, without this one.
            self._rebalance.await_join(member, reply)
            self._rebalance.begin_or_continue(now_ms)
            return
        result = self._rebalance.joined(member)
        if request.can_skip_assignment:
            result = changed(result, skip_assignment=self._membership.is_leader(member))
        else:
            # With the former leader id, the member does not consider itself the leader and computes no assignment.
            result = changed(result, leader_id=former_leader_id or UNKNOWN_MEMBER, members=())
        self._rebalance.persist()
        self._rebalance.emit(JoinReply(reply, result))

    # SyncGroup

    def sync(self, request: SyncRequest, reply: ReplyToken, now_ms: int) -> list[Effect]:
        try:
            self._sync(request, reply, now_ms)
        except BrokerError as error:
            self._rebalance.emit(SyncReply(reply, SyncResult(error.code)))
        return self._rebalance.take_effects()

    def _sync(self, request: SyncRequest, reply: ReplyToken, now_ms: int) -> None:
        if request.lacks_protocol:
            raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        member = self._member_of_generation(request.member_id, request.instance_id, request.generation_id)
        if _contradicts(request.protocol_type, self._membership.protocol_type) or _contradicts(
            request.protocol_name, self.protocol_name
        ):
            raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if self.state is ClassicGroupState.PREPARING_REBALANCE:
            raise BrokerError(ErrorCode.REBALANCE_IN_PROGRESS)
        if self.state is ClassicGroupState.STABLE:
            member.awaits_sync = False
            self._rebalance.emit(SyncReply(reply, self._rebalance.synced(member)))
            return
        self._rebalance.await_sync(member, reply)
        if self._membership.is_leader(member):
            self._rebalance.assign(dict(request.assignments), now_ms)

    # Heartbeat and LeaveGroup

    def heartbeat(self, member_id: str, instance_id: str | None, generation_id: int, now_ms: int) -> None:
        member = self._member_of_generation(member_id, instance_id, generation_id)
        self._rebalance.keep_alive(member, now_ms)
        if self.state is ClassicGroupState.PREPARING_REBALANCE:
            raise BrokerError(ErrorCode.REBALANCE_IN_PROGRESS)

    def leave(self, leaving: Sequence[LeavingMember], reply: ReplyToken, now_ms: int) -> list[Effect]:
        """Removes all of them in one rebalance. Raises only if the group is dead; other errors are per member."""
        self._check_alive()
        size_before = len(self._membership.members)
        results = tuple(self._leave(member) for member in leaving)
        if len(self._membership.members) < size_before:
            self._rebalance.begin_or_continue(now_ms)
        else:
            self._rebalance.complete_if_all_joined(now_ms)
        self._rebalance.emit(LeaveReply(reply, results))
        return self._rebalance.take_effects()

    def _leave(self, leaving: LeavingMember) -> LeaveResult:
        try:
            if leaving.member_id in self._membership.pending_members:
                del self._membership.pending_members[leaving.member_id]
            else:
                self._rebalance.remove(self._find_leaving(leaving))
        except BrokerError as error:
            return LeaveResult(error.code, leaving.member_id, leaving.instance_id)
        return LeaveResult(ErrorCode.NONE, leaving.member_id, leaving.instance_id)

    def _find_leaving(self, leaving: LeavingMember) -> ClassicMember:
        if leaving.member_id != UNKNOWN_MEMBER:
            return self._membership.find(leaving.member_id, leaving.instance_id)
        member = self._membership.static_member(leaving.instance_id)
        if member is None:
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    # Deadlines and deletion

    def next_deadline_ms(self) -> int | None:
        """When to call `tick`: never too late, but possibly too early, because heartbeats extend sessions."""
        return self._rebalance.next_deadline_ms()

    def tick(self, now_ms: int) -> list[Effect]:
        self._rebalance.tick(now_ms)
        return self._rebalance.take_effects()

    def close(self, error: ErrorCode, now_ms: int) -> list[Effect]:
        """The group was deleted or moved to another coordinator. Pending responses fail with `error`."""
        self._rebalance.die(error, now_ms)
        return self._rebalance.take_effects()

    def rebalance(self, now_ms: int) -> list[Effect]:
        """All members must join again."""
        self._rebalance.begin(now_ms)
        return self._rebalance.take_effects()

    # Offsets

    def check_offset_commit(
        self, member_id: str, instance_id: str | None, generation_id: int, *, transactional: bool, now_ms: int
    ) -> None:
        """Raises if the commit is not allowed. An allowed commit counts as a heartbeat.

        A commit without a generation comes from a consumer with assigned partitions or from an administrator; both
        require an empty group. Transactions of old producers do not identify a member.
        """
        self._check_alive()
        if generation_id < 0 and self.state is ClassicGroupState.EMPTY:
            return
        if generation_id < 0 and member_id == UNKNOWN_MEMBER and instance_id is None:
            if not transactional:
                raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
            return
        member = self._member_of_generation(member_id, instance_id, generation_id)
        if transactional:
            return
        if self.state is ClassicGroupState.COMPLETING_REBALANCE:
            raise BrokerError(ErrorCode.REBALANCE_IN_PROGRESS)
        self._rebalance.keep_alive(member, now_ms)

    def check_offset_delete(self) -> None:
        """Offsets of an active consumer group may be deleted per topic: see `is_subscribed_to`."""
        self._check_exists()
        if self.state is not ClassicGroupState.EMPTY and not self._uses_consumer_protocol:
            raise BrokerError(ErrorCode.NON_EMPTY_GROUP)

    def check_delete(self) -> None:
        self._check_exists()
        if self.state is not ClassicGroupState.EMPTY:
            raise BrokerError(ErrorCode.NON_EMPTY_GROUP)

    def is_subscribed_to(self, topic: str) -> bool:
        """Consumers whose subscription is unknown may be subscribed to any topic."""
        topics = self.subscribed_topics()
        return self._uses_consumer_protocol if topics is None else topic in topics

    def subscribed_topics(self) -> frozenset[str] | None:
        """None if they are unknown. Decodes the subscription of every member."""
        if not self._uses_consumer_protocol:
            return None
        if not self._membership.members:
            return frozenset()
        if self.protocol_name is None:
            return None
        return subscribed_topics(member.metadata(self.protocol_name) for member in self._membership.members.values())

    def offset_retention(self) -> OffsetRetention:
        if self.protocol_type == "":
            return OffsetRetention.SINCE_COMMIT
        if self.state is ClassicGroupState.EMPTY:
            # Old versions of the record have no timestamp of the state.
            is_known = self.state_timestamp_ms is not None
            return OffsetRetention.SINCE_GROUP_WAS_EMPTY if is_known else OffsetRetention.SINCE_COMMIT
        if self.state is ClassicGroupState.STABLE and self.subscribed_topics() is not None:
            return OffsetRetention.SINCE_COMMIT
        return OffsetRetention.KEEP

    # Views

    @property
    def state(self) -> ClassicGroupState:
        return self._rebalance.state

    @property
    def state_timestamp_ms(self) -> int | None:
        return self._rebalance.state_timestamp_ms

    @property
    def generation_id(self) -> int:
        return self._rebalance.generation_id

    @property
    def protocol_type(self) -> str:
        """Empty for a group that never had members, and only holds committed offsets."""
        return self._membership.protocol_type or ""

    @property
    def protocol_name(self) -> str | None:
        return self._rebalance.protocol_name

    @property
    def is_idle(self) -> bool:
        """Whether it has no members, not even pending ones. Without offsets it can be removed."""
        return self.state is ClassicGroupState.EMPTY and not self._membership.pending_members

    def members(self) -> tuple[ClassicMember, ...]:
        return tuple(self._membership.members.values())

    def describe(self) -> GroupDescription:
        is_stable = self.state is ClassicGroupState.STABLE
        protocol_name = self.protocol_name if is_stable else None
        members = tuple(member.snapshot(protocol_name) for member in self._membership.members.values())
        return GroupDescription(self.group_id, self.state, self.protocol_type, protocol_name or "", members)

    # Checks

    @property
    def _uses_consumer_protocol(self) -> bool:
        return self.protocol_type == CONSUMER_PROTOCOL_TYPE

    def _member_of_generation(self, member_id: str, instance_id: str | None, generation_id: int) -> ClassicMember:
        self._check_alive()
        member = self._membership.find(member_id, instance_id)
        if generation_id != self.generation_id:
            raise BrokerError(ErrorCode.ILLEGAL_GENERATION)
        return member

    def _check_alive(self) -> None:
        if self.state is ClassicGroupState.DEAD:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _check_exists(self) -> None:
        if self.state is ClassicGroupState.DEAD:
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND)


def _contradicts(said: str | None, known: str | None) -> bool:
    return said is not None and known is not None and said != known

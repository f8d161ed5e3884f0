"""Classic members of a group of the newer protocol: JoinGroup, SyncGroup, Heartbeat and LeaveGroup (KIP-848).

During a rolling upgrade a group has members of both protocols. The group assigns, and a classic member follows it with
its own requests: the generation is its member epoch, a join reports what it owns and reconciles it, a sync returns its
partitions, and a heartbeat answers REBALANCE_IN_PROGRESS when a join would bring the member further. No member leads.

Must never know: sockets, records, and how a group changes its kind (`group_migration.py`).

Invariant: a member that was told to join again, or has joined and not synced, does so within its rebalance timeout or
leaves the group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from penstock.coordinator.classic_messages import (
    UNKNOWN_MEMBER,
    JoinRequest,
    JoinResult,
    LeaveResult,
    LeavingMember,
    SyncRequest,
    SyncResult,
)
from penstock.coordinator.classic_subscription import CONSUMER_PROTOCOL_TYPE
from penstock.coordinator.consumer_group import ConsumerGroup
from penstock.coordinator.consumer_group_changes import (
    ClassicProtocols,
    ConsumerGroupChange,
    MemberMetadata,
    MemberState,
)
from penstock.coordinator.consumer_protocol import Subscription, read_subscription, version_of, write_assignment
from penstock.core.errors import ProtocolError
from penstock.protocol.error_codes import BrokerError, ErrorCode

NO_LEADER: Final = ""

JoinOutcome = tuple[JoinResult, list[ConsumerGroupChange]]


def join(group: ConsumerGroup, request: JoinRequest, new_uuid: Callable[[], str], now_ms: int) -> JoinOutcome:
    """The response, and the changes to write before it is sent. Raises BrokerError."""
    _check_protocols(group, request)
    member_id = request.member_id
    if member_id == UNKNOWN_MEMBER:
        member_id = f"{request.instance_id or request.client_id}-{new_uuid()}"
        if request.needs_member_id_first:
            # Nothing is remembered: the group takes any id from a member that joins with one.
            return JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id), []
        earlier_id = group.state.static_members.get(request.instance_id or "", member_id)
    else:
        earlier_id = member_id
        if request.instance_id is not None:
            group.check_known(member_id, request.instance_id)
    if earlier_id not in group.state.members and len(group.state.members) >= group.settings.max_size:
        raise BrokerError(ErrorCode.GROUP_MAX_SIZE_REACHED)
    subscription = _subscription(group, request)
    metadata = MemberMetadata(
        member_id=member_id,
        instance_id=request.instance_id,
        rack_id=subscription.rack_id,
        client_id=request.client_id,
        client_host=request.client_host,
        subscribed_topic_names=subscription.topics,
        rebalance_timeout_ms=request.join_timeout_ms,
        classic=ClassicProtocols(request.session_timeout_ms, request.protocols),
    )
    before = group.state.members.get(earlier_id)
    _, current = group.admit(earlier_id, metadata if metadata != before else before, subscription.owned, now_ms)
    group.deadlines.start_rebalance(member_id, now_ms + metadata.rebalance_timeout_ms)
    result = JoinResult(
        error=ErrorCode.NONE,
        member_id=member_id,
        generation_id=current.member_epoch,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        protocol_name=request.protocols[0].name,
        leader_id=NO_LEADER,
    )
    return result, group.take_changes()


def sync(group: ConsumerGroup, request: SyncRequest, now_ms: int) -> SyncResult:
    """The member's partitions. Raises BrokerError."""
    member, classic = _member(group, request.member_id, request.instance_id, request.generation_id)
    protocol = classic.protocols[0]
    if request.lacks_protocol or (request.protocol_type, request.protocol_name) not in (
        (None, None),
        (CONSUMER_PROTOCOL_TYPE, protocol.name),
    ):
        raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    current = group.state.current(member.member_id)
    if (
        group.state.target.assignment_epoch > current.member_epoch
        and current.state is not MemberState.UNREVOKED_PARTITIONS
    ):
        _expect_join(group, member, now_ms)
        raise BrokerError(ErrorCode.REBALANCE_IN_PROGRESS)
    group.deadlines.end_rebalance(member.member_id)
    group.start_session(member.member_id, now_ms)
    assignment = write_assignment(current.assigned, group.topic_names(), version_of(protocol.metadata))
    return SyncResult(ErrorCode.NONE, CONSUMER_PROTOCOL_TYPE, protocol.name, assignment)


def heartbeat(group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int, now_ms: int) -> None:
    """Raises BrokerError: REBALANCE_IN_PROGRESS where a join would bring the member further."""
    member, _ = _member(group, member_id, instance_id, generation_id)
    group.start_session(member_id, now_ms)
    if _should_join(group, member_id, now_ms):
        _expect_join(group, member, now_ms)
        raise BrokerError(ErrorCode.REBALANCE_IN_PROGRESS)


def leave(
    group: ConsumerGroup, leaving: Sequence[LeavingMember]
) -> tuple[tuple[LeaveResult, ...], list[ConsumerGroupChange]]:
    """Removes all of them at once; errors are per member."""
    results: list[LeaveResult] = []
    removed: list[str] = []
    for each in leaving:
        try:
            member_id = _leaving_id(group, each)
            if member_id in removed:
                raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
            removed.append(member_id)
            results.append(LeaveResult(ErrorCode.NONE, each.member_id, each.instance_id))
        except BrokerError as error:
            results.append(LeaveResult(error.code, each.member_id, each.instance_id))
    if removed:
        group.remove(removed)
    return tuple(results), group.take_changes()


def _check_protocols(group: ConsumerGroup, request: JoinRequest) -> None:
    """All classic members must have a protocol in common, or the group could never become a classic one again."""
    common = frozenset(protocol.name for protocol in request.protocols)
    for member_id, member in group.state.members.items():
        if member.classic is not None and member_id != request.member_id:
            common &= member.classic.names
    if request.protocol_type != CONSUMER_PROTOCOL_TYPE or not common:
        raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)


def _subscription(group: ConsumerGroup, request: JoinRequest) -> Subscription:
    try:
        return read_subscription(request.protocols[0].metadata, group.topic_ids())
    except ProtocolError as error:
        raise BrokerError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"The subscription cannot be read: {error}.") from None


def _member(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation_id: int
) -> tuple[MemberMetadata, ClassicProtocols]:
    group.check_known(member_id, instance_id)
    member = group.state.members[member_id]
    if member.classic is None:
        raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
    if generation_id != group.state.current(member_id).member_epoch:
        raise BrokerError(ErrorCode.ILLEGAL_GENERATION)
    return member, member.classic


def _should_join(group: ConsumerGroup, member_id: str, now_ms: int) -> bool:
    current = group.state.current(member_id)
    if group.awaits_target(now_ms) or current.member_epoch < group.state.target.assignment_epoch:
        return True
    if current.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if current.state is MemberState.STABLE:
        return False
    owners = group.state.owners
    missing = group.state.target_of(member_id) - current.assigned.keys()
    return any(owners.get(partition, member_id) == member_id for partition in missing)


def _expect_join(group: ConsumerGroup, member: MemberMetadata, now_ms: int) -> None:
    if not group.deadlines.is_rebalancing(member.member_id):
        group.deadlines.start_rebalance(member.member_id, now_ms + max(0, member.rebalance_timeout_ms))


def _leaving_id(group: ConsumerGroup, leaving: LeavingMember) -> str:
    """An administrator removes a static member by its instance id alone."""
    if leaving.member_id == UNKNOWN_MEMBER and leaving.instance_id is not None:
        static_id = group.state.static_members.get(leaving.instance_id)
        if static_id is None:
            raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
        return static_id
    group.check_known(leaving.member_id, leaving.instance_id)
    if group.state.members[leaving.member_id].classic is None:
        raise BrokerError(ErrorCode.UNKNOWN_MEMBER_ID)
    return leaving.member_id

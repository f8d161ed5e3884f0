from __future__ import annotations

import pytest

from penstock.coordinator.classic_messages import ClassicGroupState, GroupChanged, LeaveReply, LeavingMember
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.unit.coordinator.classic_harness import INITIAL_DELAY_MS, Harness


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_the_last_to_leave_makes_the_group_empty_and_that_is_durable_first(harness: Harness) -> None:
    (member_id,) = harness.stable()
    assert harness.leave(LeavingMember(member_id)) == [ErrorCode.NONE]
    assert harness.state() is ClassicGroupState.EMPTY
    change, reply = harness.history[-2:]
    assert isinstance(change, GroupChanged)
    assert isinstance(reply, LeaveReply)
    snapshot = change.snapshot
    assert (snapshot.generation_id, snapshot.members, snapshot.leader_id, snapshot.protocol_name) == (2, (), None, None)
    assert snapshot.protocol_type == "consumer"
    assert snapshot.state_timestamp_ms == harness.now_ms


def test_leaving_begins_a_rebalance_for_the_others(harness: Harness) -> None:
    leader, follower = harness.stable(2)
    harness.leave(LeavingMember(leader))
    assert harness.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    result = harness.joined(harness.join(follower))
    assert (result.generation_id, result.leader_id) == (2, follower)


def test_several_leave_at_once_with_one_rebalance(harness: Harness) -> None:
    first, second, third = harness.stable(3)
    errors = harness.leave(LeavingMember(first), LeavingMember("nobody"), LeavingMember(second), LeavingMember(first))
    assert errors == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert harness.joined(harness.join(third)).generation_id == 2


def test_an_administrator_removes_a_static_member_by_its_instance(harness: Harness) -> None:
    token = harness.join(instance_id="pod")
    harness.advance(INITIAL_DELAY_MS)
    harness.settle([harness.joined(token).member_id])
    assert harness.leave(LeavingMember("", "other")) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert harness.leave(LeavingMember("", None)) == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert harness.leave(LeavingMember("twin", "pod")) == [ErrorCode.FENCED_INSTANCE_ID]
    assert harness.leave(LeavingMember("", "pod")) == [ErrorCode.NONE]
    assert harness.state() is ClassicGroupState.EMPTY


def test_who_leaves_while_waiting_in_a_join_is_answered(harness: Harness) -> None:
    member_id, token = harness.admit()
    harness.leave(LeavingMember(member_id))
    assert harness.joined(token).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.joined(token).member_id == ""
    harness.advance(INITIAL_DELAY_MS)
    assert harness.state() is ClassicGroupState.EMPTY


def test_who_leaves_while_waiting_in_a_sync_is_answered(harness: Harness) -> None:
    harness.admit()
    follower, _ = harness.admit()
    harness.advance(2 * INITIAL_DELAY_MS)
    waiting = harness.sync(follower, 1)
    harness.leave(LeavingMember(follower))
    assert harness.synced(waiting).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_one_missing_in_a_rebalance_leaves_and_the_others_go_on(harness: Harness) -> None:
    leader, follower = harness.stable(2)
    rejoin = harness.join(leader)
    assert harness.is_waiting(rejoin)
    harness.leave(LeavingMember(follower))
    assert harness.joined(rejoin).generation_id == 2


def test_a_pending_member_that_leaves_starts_no_rebalance(harness: Harness) -> None:
    (leader,) = harness.stable()
    promised = harness.joined(harness.join()).member_id
    assert harness.leave(LeavingMember(promised)) == [ErrorCode.NONE]
    assert harness.state() is ClassicGroupState.STABLE
    assert harness.joined(harness.join(promised)).error is ErrorCode.UNKNOWN_MEMBER_ID
    promised = harness.joined(harness.join()).member_id
    rejoin = harness.join(leader)
    assert harness.is_waiting(rejoin)
    harness.leave(LeavingMember(promised))
    assert harness.joined(rejoin).generation_id == 2


def test_a_dead_group_cannot_be_left(harness: Harness) -> None:
    (member_id,) = harness.stable()
    harness.close(ErrorCode.NOT_COORDINATOR)
    with pytest.raises(BrokerError) as raised:
        harness.group.leave([LeavingMember(member_id)], 1, harness.now_ms)
    assert raised.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_heartbeats_of_the_wrong_kind(harness: Harness) -> None:
    (member_id,) = harness.stable()
    assert harness.heartbeat(member_id, 1) is ErrorCode.NONE
    assert harness.heartbeat(member_id, 0) is ErrorCode.ILLEGAL_GENERATION
    assert harness.heartbeat(member_id, 2) is ErrorCode.ILLEGAL_GENERATION
    assert harness.heartbeat("nobody", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    promised = harness.joined(harness.join()).member_id
    assert harness.heartbeat(promised, 1) is ErrorCode.UNKNOWN_MEMBER_ID

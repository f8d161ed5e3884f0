from __future__ import annotations

import pytest

from penstock.coordinator.classic_messages import ClassicGroupState
from penstock.coordinator.classic_rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS
from penstock.protocol.error_codes import ErrorCode
from tests.unit.coordinator.classic_harness import INITIAL_DELAY_MS, REBALANCE_MS, SESSION_MS, Harness


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_a_silent_member_is_removed_after_its_session_timeout(harness: Harness) -> None:
    leader, follower = harness.stable(2)
    harness.advance(SESSION_MS - 1)
    assert harness.heartbeat(follower, 1) is ErrorCode.NONE
    harness.advance(1)
    assert harness.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.joined(harness.join(follower)).leader_id == follower


def test_a_heartbeat_gives_a_whole_session(harness: Harness) -> None:
    (leader,) = harness.stable()
    for _ in range(20):
        harness.advance(SESSION_MS - 1)
        assert harness.heartbeat(leader, 1) is ErrorCode.NONE


def test_when_all_fall_silent_the_group_is_empty(harness: Harness) -> None:
    harness.stable(5)
    harness.advance(SESSION_MS)
    assert harness.state() is ClassicGroupState.EMPTY
    assert harness.changes[-1].members == ()
    assert harness.group.next_deadline_ms() is None


def test_a_jump_in_time_expires_everything_at_once(harness: Harness) -> None:
    harness.stable(5)
    harness.join()
    harness.now_ms += 10 * SESSION_MS
    harness.tick()
    assert harness.state() is ClassicGroupState.EMPTY
    assert harness.is_idle()
    assert harness.group.next_deadline_ms() is None


def test_who_does_not_join_again_within_the_rebalance_timeout_is_out(harness: Harness) -> None:
    leader, follower = harness.stable(2)
    rejoin = harness.join(leader)
    for _ in range(REBALANCE_MS // 6_000):
        assert harness.heartbeat(follower, 1) is ErrorCode.REBALANCE_IN_PROGRESS
        assert harness.is_waiting(rejoin)
        harness.advance(6_000)
    assert [member.member_id for member in harness.joined(rejoin).members] == [leader]
    assert harness.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_most_patient_member_decides_how_long_a_rebalance_waits(harness: Harness) -> None:
    (leader,) = harness.stable()
    _, token = harness.admit(rebalance_timeout_ms=2 * REBALANCE_MS)
    for _ in range(2 * REBALANCE_MS // 6_000):
        assert harness.is_waiting(token)
        harness.heartbeat(leader, 1)
        harness.advance(6_000)
    assert harness.joined(token).generation_id == 2


def test_waiting_in_a_join_is_not_held_against_a_member(harness: Harness) -> None:
    leader, follower = harness.stable(2)
    rejoin = harness.join(leader)
    for _ in range(5):
        harness.heartbeat(follower, 1)
        harness.advance(SESSION_MS - 1)
    assert harness.is_waiting(rejoin)
    harness.join(follower)
    assert harness.joined(rejoin).error is ErrorCode.NONE


def test_a_new_member_is_not_kept_waiting_forever(harness: Harness) -> None:
    patience_ms = 2 * NEW_MEMBER_JOIN_TIMEOUT_MS
    leader, first = harness.admit(rebalance_timeout_ms=patience_ms)
    harness.advance(INITIAL_DELAY_MS)
    assert not harness.is_waiting(first)
    harness.settle([leader])
    newcomer, token = harness.admit()
    for _ in range(NEW_MEMBER_JOIN_TIMEOUT_MS // 6_000):
        assert harness.is_waiting(token)
        harness.heartbeat(leader, 1)
        harness.advance(6_000)
    assert harness.joined(token).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.joined(harness.join(newcomer)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_promised_id_expires_with_the_session_timeout(harness: Harness) -> None:
    promised = harness.joined(harness.join()).member_id
    assert not harness.is_idle()
    harness.advance(SESSION_MS)
    assert harness.is_idle()
    assert harness.joined(harness.join(promised)).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_rebalance_goes_on_when_the_promised_id_it_waits_for_expires(harness: Harness) -> None:
    (leader,) = harness.stable()
    harness.join()
    rejoin = harness.join(leader)
    harness.advance(SESSION_MS - 1)
    assert harness.is_waiting(rejoin)
    harness.advance(1)
    assert harness.joined(rejoin).generation_id == 2


def test_a_rebalance_timeout_of_nothing_still_takes_a_moment(harness: Harness) -> None:
    token = harness.join(instance_id="a", rebalance_timeout_ms=0)
    harness.advance(INITIAL_DELAY_MS)
    harness.settle([harness.joined(token).member_id])
    harness.join(instance_id="b", rebalance_timeout_ms=-5)
    harness.now_ms += 1
    harness.tick()
    assert harness.group.generation_id == 2


def test_deadlines_move_only_when_asked_for(harness: Harness) -> None:
    """Heartbeats are frequent: they must not search for the earliest deadline, so a tick may be too early."""
    (leader,) = harness.stable()
    deadline_ms = harness.group.next_deadline_ms()
    assert deadline_ms is not None
    harness.now_ms += 5_000
    harness.heartbeat(leader, 1)
    harness.now_ms = deadline_ms
    harness.tick()
    later_ms = harness.group.next_deadline_ms()
    assert later_ms is not None
    assert later_ms > deadline_ms
    assert harness.heartbeat(leader, 1) is ErrorCode.NONE


def test_the_wait_for_syncs_may_end_before_any_session(harness: Harness) -> None:
    (leader,) = harness.stable()
    harness.join(leader, rebalance_timeout_ms=4_000)
    assert harness.state() is ClassicGroupState.COMPLETING_REBALANCE
    harness.advance(3_999)
    assert harness.heartbeat(leader, 2) is ErrorCode.NONE
    harness.advance(1)
    assert harness.state() is ClassicGroupState.EMPTY

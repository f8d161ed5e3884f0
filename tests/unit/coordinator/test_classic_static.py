"""Static members (KIP-345): a returning instance replaces the former one."""

from __future__ import annotations

import pytest

from penstock.coordinator.classic_messages import ClassicGroupState, GroupChanged, JoinReply, MemberProtocol
from penstock.protocol.error_codes import ErrorCode
from tests.unit.coordinator.classic_harness import INITIAL_DELAY_MS, RANGE, REBALANCE_MS, SESSION_MS, Harness


@pytest.fixture
def harness() -> Harness:
    return Harness()


def stable_statics(harness: Harness, *instances: str) -> list[str]:
    tokens = [harness.join(instance_id=instance) for instance in instances]
    harness.advance(2 * INITIAL_DELAY_MS)
    members = [harness.joined(token).member_id for token in tokens]
    harness.settle(members)
    return members


def test_a_returning_follower_takes_its_assignment_over_without_a_rebalance(harness: Harness) -> None:
    leader, follower = stable_statics(harness, "a", "b")
    result = harness.joined(harness.join(instance_id="b"))
    assert (result.error, result.generation_id, result.leader_id) == (ErrorCode.NONE, 1, leader)
    assert result.member_id not in {leader, follower}
    assert not result.skip_assignment
    assert harness.state() is ClassicGroupState.STABLE
    change, reply = harness.history[-2:]
    assert isinstance(change, GroupChanged)
    assert isinstance(reply, JoinReply)
    assert result.member_id in {member.member_id for member in change.snapshot.members}
    sync = harness.synced(harness.sync(result.member_id, 1, instance_id="b"))
    assert sync.assignment == follower.encode()


def test_the_former_member_id_is_fenced(harness: Harness) -> None:
    _, former = stable_statics(harness, "a", "b")
    harness.join(instance_id="b")
    assert harness.heartbeat(former, 1, "b") is ErrorCode.FENCED_INSTANCE_ID
    assert harness.synced(harness.sync(former, 1, instance_id="b")).error is ErrorCode.FENCED_INSTANCE_ID
    assert harness.joined(harness.join(former, "b")).error is ErrorCode.FENCED_INSTANCE_ID
    assert harness.heartbeat(former, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_instance_that_is_not_there_is_unknown(harness: Harness) -> None:
    leader, _ = stable_statics(harness, "a", "b")
    assert harness.heartbeat(leader, 1, "c") is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.joined(harness.join(leader, "c")).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert harness.joined(harness.join(leader, "b")).error is ErrorCode.FENCED_INSTANCE_ID


def test_a_returning_leader_is_told_to_skip_the_assignment(harness: Harness) -> None:
    stable_statics(harness, "a", "b")
    result = harness.joined(harness.join(instance_id="a", version=9))
    assert result.leader_id == result.member_id
    assert result.skip_assignment
    assert len(result.members) == 2
    assert harness.group.snapshot().leader_id == result.member_id


def test_a_returning_leader_of_an_older_version_is_led_to_believe_that_it_follows(harness: Harness) -> None:
    former, _ = stable_statics(harness, "a", "b")
    result = harness.joined(harness.join(instance_id="a", version=8))
    assert result.leader_id == former
    assert result.members == ()
    assert not result.skip_assignment
    assert harness.synced(harness.sync(result.member_id, 1, instance_id="a")).assignment == former.encode()


def test_other_metadata_in_the_same_protocol_begins_no_rebalance(harness: Harness) -> None:
    stable_statics(harness, "a", "b")
    harness.join(instance_id="b", protocols=[MemberProtocol("range", b"other")])
    assert harness.state() is ClassicGroupState.STABLE
    assert {member.subscription for member in harness.changes[-1].members} == {RANGE.metadata, b"other"}


def test_a_change_of_the_chosen_protocol_begins_one(harness: Harness) -> None:
    both = [RANGE, MemberProtocol("sticky", b"")]
    token = harness.join(instance_id="a", protocols=both)
    harness.advance(INITIAL_DELAY_MS)
    harness.settle([harness.joined(token).member_id])
    result = harness.joined(harness.join(instance_id="a", protocols=both[::-1]))
    assert (result.generation_id, result.protocol_name) == (2, "sticky")


def test_a_twin_that_waits_in_a_join_is_fenced_by_the_next(harness: Harness) -> None:
    first = harness.join(instance_id="a")
    second = harness.join(instance_id="a")
    assert harness.joined(first).error is ErrorCode.FENCED_INSTANCE_ID
    harness.advance(INITIAL_DELAY_MS)
    assert harness.joined(second).error is ErrorCode.NONE
    assert len(harness.joined(second).members) == 1


def test_a_twin_that_waits_in_a_sync_is_fenced_and_the_rebalance_starts_over(harness: Harness) -> None:
    tokens = [harness.join(instance_id="a"), harness.join(instance_id="b")]
    harness.advance(2 * INITIAL_DELAY_MS)
    leader, follower = (harness.joined(token).member_id for token in tokens)
    waiting = harness.sync(follower, 1, instance_id="b")
    returned = harness.join(instance_id="b")
    assert harness.synced(waiting).error is ErrorCode.FENCED_INSTANCE_ID
    assert harness.state() is ClassicGroupState.PREPARING_REBALANCE
    assert harness.synced(harness.sync(leader, 1, {}, instance_id="a")).error is ErrorCode.REBALANCE_IN_PROGRESS
    harness.join(leader, "a")
    assert harness.joined(returned).generation_id == 2


def test_a_static_member_that_is_away_stays_through_a_rebalance_until_its_session_is_over(harness: Harness) -> None:
    session_ms = 2 * REBALANCE_MS
    away = harness.join(instance_id="away", session_timeout_ms=session_ms)
    here = harness.join(instance_id="here")
    harness.advance(2 * INITIAL_DELAY_MS)
    leader, follower = (harness.joined(token).member_id for token in (away, here))
    harness.settle([leader, follower])
    rejoin = harness.join(follower, "here", protocols=[MemberProtocol("range", b"new")])
    harness.advance(REBALANCE_MS)
    result = harness.joined(rejoin)
    assert result.leader_id == follower, "who is away cannot lead"
    assert {member.instance_id for member in result.members} == {"away", "here"}
    harness.settle([follower])
    assert harness.joined(harness.join(instance_id="away")).generation_id == 2


def test_when_only_absent_static_members_are_left_there_is_no_generation_until_they_expire(harness: Harness) -> None:
    session_ms = 3 * REBALANCE_MS
    stays = harness.join(instance_id="stays", session_timeout_ms=session_ms)
    harness.join(instance_id="dies")
    harness.advance(2 * INITIAL_DELAY_MS)
    dies_id = next(m.member_id for m in harness.joined(stays).members if m.instance_id == "dies")
    harness.settle([harness.joined(stays).member_id, dies_id])
    harness.advance(SESSION_MS)
    assert harness.state() is ClassicGroupState.PREPARING_REBALANCE
    harness.advance(2 * REBALANCE_MS)
    assert harness.group.generation_id == 1
    harness.advance(REBALANCE_MS)
    assert harness.state() is ClassicGroupState.EMPTY
    assert harness.group.generation_id == 2


def test_a_returned_member_that_still_owes_its_sync_is_removed_if_it_never_comes(harness: Harness) -> None:
    tokens = [harness.join(instance_id="a"), harness.join(instance_id="b")]
    harness.advance(2 * INITIAL_DELAY_MS)
    leader = harness.joined(tokens[0]).member_id
    harness.sync(leader, 1, {}, instance_id="a")
    returned = harness.joined(harness.join(instance_id="b")).member_id
    for _ in range(REBALANCE_MS // 5_000):
        harness.heartbeat(leader, 1, "a")
        harness.heartbeat(returned, 1, "b")
        harness.advance(5_000)
    assert harness.heartbeat(returned, 1, "b") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_twin_that_takes_over_a_first_join_waits_like_any_member(harness: Harness) -> None:
    (absent,) = harness.stable()
    harness.join(instance_id="a")
    waiting = harness.join(instance_id="a")
    for _ in range(3):
        harness.heartbeat(absent, 1)
        harness.advance(SESSION_MS - 1)
    assert harness.is_waiting(waiting)

from __future__ import annotations

import pytest

from penstock.coordinator.classic_messages import ClassicGroupState, GroupChanged, SyncReply
from penstock.protocol.error_codes import ErrorCode
from tests.unit.coordinator.classic_harness import INITIAL_DELAY_MS, REBALANCE_MS, Harness


@pytest.fixture
def harness() -> Harness:
    return Harness()


def assigning(harness: Harness, size: int = 2) -> list[str]:
    """A group that waits for its leader's assignment; the leader comes first."""
    members = [harness.admit()[0] for _ in range(size)]
    harness.advance(2 * INITIAL_DELAY_MS)
    assert harness.state() is ClassicGroupState.COMPLETING_REBALANCE
    return members


def test_followers_wait_for_the_leader_and_get_what_it_assigned(harness: Harness) -> None:
    leader, follower = assigning(harness)
    waiting = harness.sync(follower, 1)
    assert harness.is_waiting(waiting)
    own = harness.sync(leader, 1, {leader: b"partition 0", follower: b"partition 1"})
    assert harness.synced(own).assignment == b"partition 0"
    assert harness.synced(waiting).assignment == b"partition 1"
    assert harness.synced(waiting).protocol_type == "consumer"
    assert harness.synced(waiting).protocol_name == "range"
    assert harness.state() is ClassicGroupState.STABLE


def test_the_assignment_is_durable_before_syncs_are_answered(harness: Harness) -> None:
    leader, follower = assigning(harness)
    harness.sync(follower, 1)
    assert harness.changes == [], "nothing is worth keeping before there is an assignment"
    harness.sync(leader, 1, {leader: b"a", follower: b"b"})
    change, *replies = harness.history[-3:]
    assert isinstance(change, GroupChanged)
    assert all(isinstance(reply, SyncReply) for reply in replies)
    assert {member.member_id: member.assignment for member in change.snapshot.members} == {leader: b"a", follower: b"b"}
    assert (change.snapshot.generation_id, change.snapshot.leader_id) == (1, leader)


def test_a_follower_that_comes_late_gets_its_assignment_at_once(harness: Harness) -> None:
    leader, follower = assigning(harness)
    harness.sync(leader, 1, {follower: b"late"})
    assert harness.synced(harness.sync(follower, 1)).assignment == b"late"


def test_a_member_that_the_leader_left_out_gets_an_empty_assignment(harness: Harness) -> None:
    leader, follower = assigning(harness)
    harness.sync(leader, 1, {leader: b"all", "stranger": b"ignored"})
    result = harness.synced(harness.sync(follower, 1))
    assert (result.error, result.assignment) == (ErrorCode.NONE, b"")


def test_only_the_leaders_assignment_counts(harness: Harness) -> None:
    leader, follower = assigning(harness)
    waiting = harness.sync(follower, 1, {follower: b"everything"})
    assert harness.is_waiting(waiting)
    harness.sync(leader, 1, {leader: b"", follower: b"as the leader says"})
    assert harness.synced(waiting).assignment == b"as the leader says"


def test_a_stable_group_keeps_its_assignment(harness: Harness) -> None:
    (leader,) = harness.stable()
    assert harness.synced(harness.sync(leader, 1, {leader: b"other"})).assignment == leader.encode()
    assert len(harness.changes) == 1


def test_wrong_syncs(harness: Harness) -> None:
    leader, follower = assigning(harness)
    errors = {
        ErrorCode.UNKNOWN_MEMBER_ID: harness.sync("nobody", 1),
        ErrorCode.ILLEGAL_GENERATION: harness.sync(follower, 2),
        ErrorCode.INCONSISTENT_GROUP_PROTOCOL: harness.sync(follower, 1, protocol_name="sticky"),
    }
    for error, token in errors.items():
        assert harness.synced(token).error is error
    assert harness.synced(harness.sync(follower, 0)).error is ErrorCode.ILLEGAL_GENERATION
    assert harness.synced(harness.sync(follower, 1, instance_id="x")).error is ErrorCode.UNKNOWN_MEMBER_ID
    wrong_type = harness.sync(follower, 1, protocol_type="connect")
    assert harness.synced(wrong_type).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    harness.admit()
    assert harness.synced(harness.sync(leader, 1)).error is ErrorCode.REBALANCE_IN_PROGRESS


def test_from_version_5_a_sync_must_name_the_protocol(harness: Harness) -> None:
    (leader,) = harness.stable()
    assert harness.synced(harness.sync(leader, 1, protocol_name=None)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert harness.synced(harness.sync(leader, 1, protocol_type=None)).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    older = harness.sync(leader, 1, version=4, protocol_type=None, protocol_name=None)
    assert harness.synced(older).error is ErrorCode.NONE


def test_a_repeated_sync_supersedes_the_waiting_one(harness: Harness) -> None:
    leader, follower = assigning(harness)
    first, second = harness.sync(follower, 1), harness.sync(follower, 1)
    assert harness.synced(first).error is ErrorCode.REBALANCE_IN_PROGRESS
    harness.sync(leader, 1, {follower: b"x"})
    assert harness.synced(second).assignment == b"x"


def test_a_leader_that_never_syncs_is_removed_after_the_rebalance_timeout(harness: Harness) -> None:
    leader, follower = assigning(harness)
    waiting = harness.sync(follower, 1)
    for _ in range(REBALANCE_MS // 5_000):
        assert harness.heartbeat(leader, 1) is ErrorCode.NONE
        harness.advance(5_000)
    assert harness.synced(waiting).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    rejoin = harness.joined(harness.join(follower))
    assert (rejoin.generation_id, rejoin.leader_id) == (2, follower)


def test_a_follower_that_never_syncs_is_removed_from_the_stable_group(harness: Harness) -> None:
    leader, follower = assigning(harness)
    harness.sync(leader, 1, {leader: b"a", follower: b"b"})
    for _ in range(REBALANCE_MS // 5_000):
        harness.heartbeat(leader, 1)
        harness.heartbeat(follower, 1)
        harness.advance(5_000)
    assert harness.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert harness.heartbeat(follower, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_when_all_have_synced_nothing_happens_at_the_end_of_the_rebalance_timeout(harness: Harness) -> None:
    members = harness.stable(2)
    for _ in range(2 * REBALANCE_MS // 5_000):
        assert [harness.heartbeat(member_id, 1) for member_id in members] == [ErrorCode.NONE] * 2
        harness.advance(5_000)


def test_waiting_for_the_leader_is_not_held_against_a_follower(harness: Harness) -> None:
    leader, follower = assigning(harness)
    waiting = harness.sync(follower, 1)
    for _ in range(8):
        harness.heartbeat(leader, 1)
        harness.advance(5_000)
    assert harness.is_waiting(waiting)
    harness.sync(leader, 1, {follower: b"patience"})
    assert harness.synced(waiting).assignment == b"patience"
    harness.advance(9_999)
    assert harness.heartbeat(follower, 1) is ErrorCode.NONE, "a whole session from the answer on"

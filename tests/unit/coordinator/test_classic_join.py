from __future__ import annotations

import pytest

from penstock.coordinator.classic_group import ClassicGroupSettings
from penstock.coordinator.classic_messages import ClassicGroupState, JoinedMember, LeavingMember, MemberProtocol
from penstock.protocol.error_codes import ErrorCode
from tests.unit.coordinator.classic_harness import INITIAL_DELAY_MS, REBALANCE_MS, SESSION_MS, Harness

ROUND_ROBIN = MemberProtocol("roundrobin", b"rr")
RANGE = MemberProtocol("range", b"r")
STICKY = MemberProtocol("sticky", b"s")


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_a_dynamic_member_is_given_its_id_before_it_may_join(harness: Harness) -> None:
    asking = harness.joined(harness.join(client_id="reader"))
    assert asking.error is ErrorCode.MEMBER_ID_REQUIRED
    assert asking.member_id == "reader-uuid1"
    assert harness.state() is ClassicGroupState.EMPTY
    harness.join(asking.member_id)
    assert harness.state() is ClassicGroupState.PREPARING_REBALANCE


def test_before_version_4_a_member_joins_in_one_step(harness: Harness) -> None:
    token = harness.join(version=3, client_id="old")
    harness.advance(INITIAL_DELAY_MS)
    assert harness.joined(token).member_id == "old-uuid1"
    assert harness.joined(token).error is ErrorCode.NONE


def test_a_static_member_joins_in_one_step_and_its_id_tells_its_instance(harness: Harness) -> None:
    token = harness.join(instance_id="pod-3")
    harness.advance(INITIAL_DELAY_MS)
    assert harness.joined(token).member_id == "pod-3-uuid1"


def test_the_first_generation_waits_for_more_members(harness: Harness) -> None:
    first_id, first = harness.admit()
    harness.advance(INITIAL_DELAY_MS - 1)
    second_id, second = harness.admit()
    harness.advance(1)
    assert harness.is_waiting(first), "a member came, so there is another round"
    harness.advance(INITIAL_DELAY_MS)
    leader, follower = harness.joined(first), harness.joined(second)
    assert leader.generation_id == follower.generation_id == 1
    assert leader.leader_id == follower.leader_id == first_id
    assert leader.protocol_name == "range"
    assert leader.protocol_type == "consumer"
    assert {member.member_id for member in leader.members} == {first_id, second_id}
    assert follower.members == ()
    assert harness.state() is ClassicGroupState.COMPLETING_REBALANCE


def test_the_wait_for_more_members_ends_with_the_rebalance_timeout() -> None:
    harness = Harness()
    _, first = harness.admit(rebalance_timeout_ms=7_000)
    for _ in range(2):
        harness.advance(INITIAL_DELAY_MS - 1)
        harness.admit(rebalance_timeout_ms=7_000)
        harness.advance(1)
        assert harness.is_waiting(first)
    # 3 s and 3 s have passed; 1 s of the 7 s is left, whatever members join.
    harness.admit(rebalance_timeout_ms=7_000)
    harness.advance(999)
    assert harness.is_waiting(first)
    harness.advance(1)
    assert harness.joined(first).error is ErrorCode.NONE


def test_without_a_delay_the_first_member_has_its_generation_at_the_next_tick() -> None:
    harness = Harness(ClassicGroupSettings(initial_rebalance_delay_ms=0))
    _, token = harness.admit()
    assert harness.group.next_deadline_ms() == harness.now_ms
    harness.tick()
    assert harness.joined(token).generation_id == 1


def test_the_leader_gets_the_metadata_of_the_chosen_protocol(harness: Harness) -> None:
    token = harness.join(instance_id="a", protocols=[STICKY, RANGE])
    harness.join(instance_id="b", protocols=[MemberProtocol("range", b"b's range"), ROUND_ROBIN])
    harness.advance(2 * INITIAL_DELAY_MS)
    assert harness.joined(token).protocol_name == "range"
    assert harness.joined(token).members == (
        JoinedMember("a-uuid1", "a", b"r"),
        JoinedMember("b-uuid2", "b", b"b's range"),
    )


def test_of_the_shared_protocols_the_one_with_the_most_votes_is_chosen(harness: Harness) -> None:
    token = harness.join(instance_id="a", protocols=[RANGE, STICKY, ROUND_ROBIN])
    harness.join(instance_id="b", protocols=[STICKY, RANGE])
    harness.join(instance_id="c", protocols=[ROUND_ROBIN, STICKY, RANGE])
    harness.advance(2 * INITIAL_DELAY_MS)
    assert harness.joined(token).protocol_name == "sticky", (
        "c cannot have roundrobin, and likes sticky better than range"
    )


@pytest.mark.parametrize(
    ("protocol_type", "protocols"),
    [("connect", [RANGE]), ("consumer", [ROUND_ROBIN]), ("consumer", []), ("", [RANGE])],
)
def test_a_member_that_shares_no_protocol_is_refused(
    harness: Harness, protocol_type: str, protocols: list[MemberProtocol]
) -> None:
    harness.stable()
    refused = harness.joined(harness.join(protocol_type=protocol_type, protocols=protocols))
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert refused.member_id == ""


@pytest.mark.parametrize(("protocol_type", "protocols"), [("", [RANGE]), ("consumer", [])])
def test_the_first_member_must_have_a_protocol(
    harness: Harness, protocol_type: str, protocols: list[MemberProtocol]
) -> None:
    refused = harness.joined(harness.join(protocol_type=protocol_type, protocols=protocols))
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_group_may_become_one_of_another_kind(harness: Harness) -> None:
    (member_id,) = harness.stable()
    harness.leave(LeavingMember(member_id))
    token = harness.join(instance_id="worker", protocol_type="connect", protocols=[ROUND_ROBIN])
    harness.advance(INITIAL_DELAY_MS)
    assert harness.joined(token).protocol_type == "connect"
    assert harness.joined(token).generation_id == 3, "generations go on from the one in which the group was empty"


@pytest.mark.parametrize("session_timeout_ms", [5_999, 1_800_001, 0, -1])
def test_a_session_timeout_outside_the_range_is_refused(harness: Harness, session_timeout_ms: int) -> None:
    refused = harness.joined(harness.join("anybody", session_timeout_ms=session_timeout_ms))
    assert refused.error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert refused.member_id == "anybody"


def test_an_unknown_member_id_is_refused(harness: Harness) -> None:
    assert harness.joined(harness.join("nobody")).error is ErrorCode.UNKNOWN_MEMBER_ID
    harness.stable()
    assert harness.joined(harness.join("nobody")).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_promised_member_id_cannot_be_used_for_a_static_member(harness: Harness) -> None:
    promised = harness.joined(harness.join()).member_id
    assert harness.joined(harness.join(promised, "pod")).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_full_group_refuses_new_members() -> None:
    harness = Harness(ClassicGroupSettings(size_max=2))
    members = harness.stable(2)
    assert harness.joined(harness.join()).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert harness.state() is ClassicGroupState.STABLE
    assert harness.joined(harness.join(members[1])).error is ErrorCode.NONE, "its members may still join"


def test_while_joins_are_collected_those_who_joined_count() -> None:
    harness = Harness(ClassicGroupSettings(size_max=2))
    _, first = harness.admit()
    harness.admit()
    late = harness.joined(harness.join())
    assert late.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert late.member_id == ""
    harness.advance(2 * INITIAL_DELAY_MS)
    assert len(harness.joined(first).members) == 2


def test_a_promised_id_is_taken_back_when_the_group_is_full_by_then() -> None:
    harness = Harness(ClassicGroupSettings(size_max=1))
    promised = harness.joined(harness.join()).member_id
    _, first = harness.admit()
    assert harness.joined(harness.join(promised)).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    harness.advance(INITIAL_DELAY_MS)
    assert harness.joined(first).error is ErrorCode.NONE
    assert harness.joined(harness.join(promised)).error is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_new_member_begins_a_rebalance_of_a_stable_group(harness: Harness) -> None:
    leader, follower = harness.stable(2)
    newcomer, token = harness.admit()
    assert harness.state() is ClassicGroupState.PREPARING_REBALANCE
    assert harness.heartbeat(leader, 1) is ErrorCode.REBALANCE_IN_PROGRESS
    rejoins = [harness.join(leader), harness.join(follower)]
    assert harness.joined(token).generation_id == 2
    assert [harness.joined(rejoin).leader_id for rejoin in rejoins] == [leader, leader]
    assert {member.member_id for member in harness.joined(rejoins[0]).members} == {leader, follower, newcomer}


def test_a_rebalance_waits_for_promised_members_too(harness: Harness) -> None:
    (leader,) = harness.stable()
    promised = harness.joined(harness.join()).member_id
    rejoin = harness.join(leader)
    assert harness.is_waiting(rejoin)
    harness.join(promised)
    assert len(harness.joined(rejoin).members) == 2


def test_a_follower_with_nothing_new_is_told_the_current_generation(harness: Harness) -> None:
    leader, follower = harness.stable(2)
    result = harness.joined(harness.join(follower))
    assert (result.error, result.generation_id, result.leader_id, result.members) == (ErrorCode.NONE, 1, leader, ())
    assert harness.state() is ClassicGroupState.STABLE


def test_a_leader_that_joins_again_gets_a_rebalance(harness: Harness) -> None:
    (leader,) = harness.stable()
    assert harness.joined(harness.join(leader)).generation_id == 2


def test_a_follower_with_other_metadata_gets_a_rebalance(harness: Harness) -> None:
    leader, follower = harness.stable(2)
    token = harness.join(follower, protocols=[MemberProtocol("range", b"other topics")])
    assert harness.is_waiting(token)
    rejoin = harness.join(leader)
    assert JoinedMember(follower, None, b"other topics") in harness.joined(rejoin).members


def test_a_member_that_missed_its_answer_gets_it_again_while_the_leader_is_at_work(harness: Harness) -> None:
    leader, first = harness.admit()
    follower, second = harness.admit()
    harness.advance(2 * INITIAL_DELAY_MS)
    assert harness.joined(harness.join(leader)) == harness.joined(first)
    assert harness.joined(harness.join(follower)) == harness.joined(second)


def test_a_join_with_other_metadata_while_the_leader_is_at_work_starts_over(harness: Harness) -> None:
    leader, _ = harness.admit()
    follower, _ = harness.admit()
    harness.advance(2 * INITIAL_DELAY_MS)
    waiting_sync = harness.sync(leader, 7)
    assert harness.synced(waiting_sync).error is ErrorCode.ILLEGAL_GENERATION
    other_sync = harness.sync(follower, 1)
    token = harness.join(follower, protocols=[MemberProtocol("range", b"new")])
    assert harness.synced(other_sync).error is ErrorCode.REBALANCE_IN_PROGRESS
    harness.join(leader)
    assert harness.joined(token).generation_id == 2


def test_a_repeated_join_supersedes_the_waiting_one(harness: Harness) -> None:
    member_id, first = harness.admit()
    second = harness.join(member_id)
    assert harness.joined(first).error is ErrorCode.REBALANCE_IN_PROGRESS
    harness.advance(INITIAL_DELAY_MS)
    assert harness.joined(second).error is ErrorCode.NONE


def test_a_leader_that_does_not_come_back_is_replaced(harness: Harness) -> None:
    leader, follower = harness.stable(2)
    newcomer, token = harness.admit()
    rejoin = harness.join(follower)
    for _ in range(REBALANCE_MS // 5_000):
        harness.heartbeat(leader, 1)
        harness.advance(5_000)
    assert harness.joined(token).leader_id == follower
    assert {member.member_id for member in harness.joined(rejoin).members} == {follower, newcomer}
    assert harness.heartbeat(leader, 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_version_0_waits_for_the_session_timeout_since_it_has_no_other(harness: Harness) -> None:
    first = harness.join(version=0, rebalance_timeout_ms=-1)
    harness.advance(INITIAL_DELAY_MS)
    harness.settle([harness.joined(first).member_id])
    second = harness.join(version=0, rebalance_timeout_ms=-1)
    harness.advance(SESSION_MS - 1)
    assert harness.is_waiting(second)
    harness.advance(1)
    assert harness.joined(second).generation_id == 2


def test_a_dead_group_sends_members_to_look_for_their_coordinator(harness: Harness) -> None:
    member_id, waiting = harness.admit()
    harness.close(ErrorCode.NOT_COORDINATOR)
    assert harness.joined(waiting).error is ErrorCode.NOT_COORDINATOR
    assert harness.joined(harness.join(member_id)).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.synced(harness.sync(member_id, 1)).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.heartbeat(member_id, 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert harness.group.next_deadline_ms() is None
    harness.advance(1_000_000)

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.coordinator.classic_group import ClassicGroupSettings
from penstock.coordinator.classic_messages import ClassicGroupState, GroupSnapshot, LeavingMember, MemberProtocol
from penstock.protocol.error_codes import ErrorCode
from tests.unit.coordinator.classic_harness import INITIAL_DELAY_MS, REBALANCE_MS, SESSION_MS, Harness


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_a_restored_group_goes_on_as_if_nothing_had_happened(harness: Harness) -> None:
    leader, follower = harness.stable(2)
    harness.restart(harness.changes[-1])
    assert harness.group.snapshot() == harness.changes[-1]
    assert harness.heartbeat(leader, 1) is ErrorCode.NONE
    assert harness.synced(harness.sync(follower, 1)).assignment == follower.encode()
    assert harness.joined(harness.join(follower)).leader_id == leader


def test_members_of_a_restored_group_get_a_whole_session_to_come_back(harness: Harness) -> None:
    (leader,) = harness.stable()
    harness.now_ms += 100 * SESSION_MS
    harness.restart(harness.changes[-1])
    harness.advance(SESSION_MS - 1)
    assert harness.state() is ClassicGroupState.STABLE
    harness.advance(1)
    assert harness.state() is ClassicGroupState.EMPTY
    assert harness.group.generation_id == 2
    assert harness.heartbeat(leader, 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_restored_group_remembers_its_static_members(harness: Harness) -> None:
    token = harness.join(instance_id="pod")
    harness.advance(INITIAL_DELAY_MS)
    member_id = harness.joined(token).member_id
    harness.settle([member_id])
    harness.restart(harness.changes[-1])
    returned = harness.joined(harness.join(instance_id="pod"))
    assert returned.generation_id == 1
    assert returned.skip_assignment
    assert harness.heartbeat(member_id, 1, "pod") is ErrorCode.FENCED_INSTANCE_ID


def test_a_restored_empty_group_keeps_its_generation(harness: Harness) -> None:
    (member_id,) = harness.stable()
    harness.leave(LeavingMember(member_id))
    harness.restart(harness.changes[-1])
    assert harness.state() is ClassicGroupState.EMPTY
    assert harness.group.state_timestamp_ms == harness.now_ms
    harness.stable()
    assert harness.group.generation_id == 3


def test_only_what_was_said_in_the_chosen_protocol_is_kept(harness: Harness) -> None:
    protocols = [MemberProtocol("range", b"r"), MemberProtocol("sticky", b"s")]
    token = harness.join(instance_id="pod", protocols=protocols)
    harness.advance(INITIAL_DELAY_MS)
    harness.settle([harness.joined(token).member_id])
    (member,) = harness.changes[-1].members
    assert member.subscription == b"r"
    assert (member.session_timeout_ms, member.rebalance_timeout_ms) == (SESSION_MS, REBALANCE_MS)
    assert (member.client_id, member.client_host) == ("client", "/127.0.0.1")
    harness.restart(harness.changes[-1])
    refused = harness.joined(harness.join(protocols=protocols[1:]))
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_records_of_old_versions_lack_some_fields(harness: Harness) -> None:
    harness.stable()
    snapshot = harness.changes[-1]
    (member,) = snapshot.members
    old = replace(snapshot, state_timestamp_ms=-1, members=(replace(member, rebalance_timeout_ms=-1),))
    harness.restart(old)
    assert harness.group.state_timestamp_ms is None
    assert harness.group.snapshot().state_timestamp_ms == -1
    assert harness.group.snapshot().members[0].rebalance_timeout_ms == SESSION_MS


def test_the_leader_need_not_be_the_first_of_the_members(harness: Harness) -> None:
    _, follower = harness.stable(2)
    harness.restart(replace(harness.changes[-1], leader_id=follower))
    assert harness.group.snapshot().leader_id == follower


def test_a_record_whose_leader_is_no_member_gets_another_leader(harness: Harness) -> None:
    (member_id,) = harness.stable()
    harness.restart(replace(harness.changes[-1], leader_id="gone"))
    assert harness.joined(harness.join(member_id)).leader_id == member_id


def test_a_restored_group_that_is_too_large_by_now_shrinks() -> None:
    harness = Harness()
    members = harness.stable(3)
    harness.settings = ClassicGroupSettings(size_max=2)
    harness.restart(harness.changes[-1])
    assert harness.state() is ClassicGroupState.PREPARING_REBALANCE
    tokens = [harness.join(member_id) for member_id in members]
    assert harness.joined(tokens[2]).error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert [harness.joined(token).generation_id for token in tokens[:2]] == [2, 2]


def test_a_group_that_only_holds_offsets(harness: Harness) -> None:
    empty = GroupSnapshot("readers", "", 0, None, None, -1, ())
    assert harness.group.snapshot() == empty
    harness.restart(empty)
    assert harness.group.protocol_type == ""
    assert harness.is_idle()

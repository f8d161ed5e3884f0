"""Offset commits, deletion and description of a classic group."""

from __future__ import annotations

import struct

import pytest

from penstock.coordinator.classic_messages import ClassicGroupState, LeavingMember, MemberProtocol, OffsetRetention
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.unit.coordinator.classic_harness import INITIAL_DELAY_MS, RANGE, SESSION_MS, Harness


@pytest.fixture
def harness() -> Harness:
    return Harness()


def commit(
    harness: Harness,
    member_id: str = "",
    generation_id: int = -1,
    instance_id: str | None = None,
    *,
    transactional: bool = False,
) -> ErrorCode:
    try:
        harness.group.check_offset_commit(
            member_id, instance_id, generation_id, transactional=transactional, now_ms=harness.now_ms
        )
    except BrokerError as error:
        return error.code
    return ErrorCode.NONE


def refusal(call: object) -> ErrorCode:
    assert callable(call)
    try:
        call()
    except BrokerError as error:
        return error.code
    return ErrorCode.NONE


def subscription(*topics: str, version: int = 1) -> bytes:
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", version, len(topics)) + names + struct.pack(">i", -1) + b"what later versions add"


def stable_reading(harness: Harness, *metadata: bytes, protocol_type: str = "consumer") -> None:
    tokens = [
        harness.join(instance_id=f"i{n}", protocols=[MemberProtocol("range", said)], protocol_type=protocol_type)
        for n, said in enumerate(metadata)
    ]
    harness.advance(2 * INITIAL_DELAY_MS)
    leader, *_ = members = [harness.joined(token).member_id for token in tokens]
    for member_id in members:
        harness.sync(member_id, 1, {leader: b""}, protocol_type=protocol_type)
    assert harness.state() is ClassicGroupState.STABLE


def test_an_empty_group_takes_offsets_of_consumers_that_manage_themselves(harness: Harness) -> None:
    assert commit(harness) is ErrorCode.NONE
    assert commit(harness, "some name", -1) is ErrorCode.NONE
    assert commit(harness, "member", 1) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_with_members_takes_offsets_of_its_members_only(harness: Harness) -> None:
    (member_id,) = harness.stable()
    assert commit(harness, member_id, 1) is ErrorCode.NONE
    assert commit(harness) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(harness, "other", 1) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(harness, member_id, 0) is ErrorCode.ILLEGAL_GENERATION
    assert commit(harness, member_id, 2) is ErrorCode.ILLEGAL_GENERATION
    assert commit(harness, member_id, -1) is ErrorCode.ILLEGAL_GENERATION
    assert commit(harness, member_id, 1, "instance") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_fenced_instance_commits_nothing(harness: Harness) -> None:
    token = harness.join(instance_id="pod")
    harness.advance(INITIAL_DELAY_MS)
    member_id = harness.joined(token).member_id
    harness.settle([member_id])
    assert commit(harness, member_id, 1, "pod") is ErrorCode.NONE
    harness.join(instance_id="pod")
    assert commit(harness, member_id, 1, "pod") is ErrorCode.FENCED_INSTANCE_ID
    assert commit(harness, member_id, 1, "pod", transactional=True) is ErrorCode.FENCED_INSTANCE_ID


def test_members_may_commit_until_they_have_joined_again_but_not_before_they_are_assigned(harness: Harness) -> None:
    (member_id,) = harness.stable()
    newcomer, _ = harness.admit()
    assert harness.state() is ClassicGroupState.PREPARING_REBALANCE
    assert commit(harness, member_id, 1) is ErrorCode.NONE
    harness.join(member_id)
    assert harness.state() is ClassicGroupState.COMPLETING_REBALANCE
    assert commit(harness, member_id, 1) is ErrorCode.ILLEGAL_GENERATION
    assert commit(harness, member_id, 2) is ErrorCode.REBALANCE_IN_PROGRESS
    assert commit(harness, newcomer, 2, transactional=True) is ErrorCode.NONE


def test_transactions_of_old_producers_name_no_member(harness: Harness) -> None:
    harness.stable()
    assert commit(harness, transactional=True) is ErrorCode.NONE
    assert commit(harness, "other", 1, transactional=True) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_commit_is_a_sign_of_life(harness: Harness) -> None:
    (member_id,) = harness.stable()
    for _ in range(3):
        harness.advance(SESSION_MS - 1)
        assert commit(harness, member_id, 1) is ErrorCode.NONE


def test_a_dead_group_takes_nothing(harness: Harness) -> None:
    harness.close(ErrorCode.NOT_COORDINATOR)
    assert commit(harness) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert refusal(harness.group.check_delete) is ErrorCode.GROUP_ID_NOT_FOUND
    assert refusal(harness.group.check_offset_delete) is ErrorCode.GROUP_ID_NOT_FOUND


def test_only_an_empty_group_can_be_deleted(harness: Harness) -> None:
    assert refusal(harness.group.check_delete) is ErrorCode.NONE
    member_id, _ = harness.admit()
    assert refusal(harness.group.check_delete) is ErrorCode.NON_EMPTY_GROUP
    harness.advance(INITIAL_DELAY_MS)
    assert refusal(harness.group.check_delete) is ErrorCode.NON_EMPTY_GROUP
    harness.settle([member_id])
    assert refusal(harness.group.check_delete) is ErrorCode.NON_EMPTY_GROUP
    harness.leave(LeavingMember(member_id))
    assert refusal(harness.group.check_delete) is ErrorCode.NONE


def test_offsets_of_consumers_at_work_can_be_deleted_where_they_do_not_read(harness: Harness) -> None:
    stable_reading(harness, subscription("orders", "payments"), subscription("orders", "clicks", version=3))
    assert refusal(harness.group.check_offset_delete) is ErrorCode.NONE
    assert harness.group.subscribed_topics() == frozenset({"orders", "payments", "clicks"})
    assert harness.group.is_subscribed_to("clicks")
    assert not harness.group.is_subscribed_to("returns")


@pytest.mark.parametrize("said", [b"", b"\x00", b"\x00\x00\x00\x00\x00\x09nothing like it"])
def test_consumers_that_say_something_else_may_read_anything(harness: Harness, said: bytes) -> None:
    stable_reading(harness, subscription("orders"), said)
    assert harness.group.subscribed_topics() is None
    assert harness.group.is_subscribed_to("returns")
    assert harness.group.offset_retention() is OffsetRetention.KEEP


def test_other_kinds_of_groups_must_be_empty_for_that(harness: Harness) -> None:
    stable_reading(harness, subscription("orders"), protocol_type="connect")
    assert refusal(harness.group.check_offset_delete) is ErrorCode.NON_EMPTY_GROUP
    assert harness.group.subscribed_topics() is None
    assert not harness.group.is_subscribed_to("orders")


def test_how_long_offsets_are_kept(harness: Harness) -> None:
    assert harness.group.offset_retention() is OffsetRetention.SINCE_COMMIT
    member_id, _ = harness.admit(protocols=[MemberProtocol("range", subscription("orders"))])
    assert harness.group.offset_retention() is OffsetRetention.KEEP
    harness.advance(INITIAL_DELAY_MS)
    harness.settle([member_id])
    assert harness.group.offset_retention() is OffsetRetention.SINCE_COMMIT
    harness.leave(LeavingMember(member_id))
    assert harness.group.offset_retention() is OffsetRetention.SINCE_GROUP_WAS_EMPTY
    assert harness.group.subscribed_topics() == frozenset()


def test_a_description_shows_protocol_and_subscriptions_of_a_stable_group_only(harness: Harness) -> None:
    nothing = harness.group.describe()
    assert (nothing.state.value, nothing.protocol_type, nothing.members) == ("Empty", "", ())
    member_id, _ = harness.admit()
    preparing = harness.group.describe()
    assert (preparing.state.value, preparing.protocol_type, preparing.protocol_name) == (
        "PreparingRebalance",
        "consumer",
        "",
    )
    assert [(member.member_id, member.subscription) for member in preparing.members] == [(member_id, b"")]
    harness.advance(INITIAL_DELAY_MS)
    assert harness.group.describe().state.value == "CompletingRebalance"
    harness.settle([member_id])
    stable = harness.group.describe()
    assert (stable.group_id, stable.state.value, stable.protocol_name) == ("readers", "Stable", "range")
    (member,) = stable.members
    assert (member.subscription, member.assignment) == (RANGE.metadata, member_id.encode())

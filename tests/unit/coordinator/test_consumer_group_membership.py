"""Membership: joining, leaving, epochs and fencing, static members, sessions, invalid requests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.coordinator.consumer_group_changes import MemberMetadata
from penstock.coordinator.consumer_group_messages import ConsumerGroupSettings, Heartbeat, check_heartbeat
from penstock.coordinator.consumer_group_state import GroupPhase
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.unit.coordinator.consumer_group_harness import (
    GROUP_ID,
    SESSION_MS,
    SETTINGS,
    GroupOnALog,
    SimulatedMember,
    partitions,
    settle,
    topics,
)


@pytest.fixture
def broker() -> GroupOnALog:
    return GroupOnALog(topics(orders=4))


def refusal_of(broker: GroupOnALog, heartbeat: Heartbeat, api_version: int = 1) -> int:
    """The code of the refusal, which must have changed nothing."""
    described = broker.group.describe()
    with pytest.raises(BrokerError) as refusal:
        broker.send(heartbeat, api_version)
    assert broker.group.describe() == described
    assert broker.group.tick(broker.now_ms) == []
    return refusal.value.code


# Joining


def test_the_first_member_gets_everything_at_once(broker: GroupOnALog) -> None:
    member = SimulatedMember(broker, "m1")
    result = member.heartbeat()
    assert (result.member_id, result.member_epoch, result.heartbeat_interval_ms) == ("m1", 1, 5_000)
    assert member.owned == partitions("orders", range(4))
    assert broker.group.phase is GroupPhase.STABLE


def test_an_answer_carries_the_assignment_only_when_it_is_news(broker: GroupOnALog) -> None:
    member = SimulatedMember(broker, "m1")
    member.heartbeat()
    assert member.heartbeat().assignment is None
    member.must_send_all = True
    assert member.heartbeat().assignment is not None


def test_a_heartbeat_that_changes_nothing_writes_nothing(broker: GroupOnALog) -> None:
    member = SimulatedMember(broker, "m1")
    settle(member)
    _, changes = broker.group.heartbeat(member.request(), broker.now_ms)
    assert changes == []


def test_a_member_without_topics_is_a_member(broker: GroupOnALog) -> None:
    member = SimulatedMember(broker, "m1", topic_names=())
    assert member.heartbeat().member_epoch == 1
    assert member.owned == frozenset()
    assert broker.group.phase is GroupPhase.STABLE


def test_a_full_group_takes_no_new_member_but_keeps_those_it_has() -> None:
    broker = GroupOnALog(topics(orders=4), replace(SETTINGS, max_size=1))
    first = SimulatedMember(broker, "m1")
    first.heartbeat()
    assert refusal_of(broker, SimulatedMember(broker, "m2").request()) == ErrorCode.GROUP_MAX_SIZE_REACHED
    first.heartbeat()
    first.drop_everything()
    first.heartbeat()


def test_a_full_group_takes_back_a_static_member() -> None:
    broker = GroupOnALog(topics(orders=4), replace(SETTINGS, max_size=1))
    first = SimulatedMember(broker, "m1", instance_id="one")
    first.heartbeat()
    first.leave(epoch=-2)
    assert SimulatedMember(broker, "m2", instance_id="one").heartbeat().member_epoch == 1


def test_what_a_heartbeat_omits_stays_as_it_was(broker: GroupOnALog) -> None:
    member = SimulatedMember(broker, "m1", regex="x.*", assignor="range")
    broker.send(replace(member.request(), rack_id="rack", client_id="client", client_host="/127.0.0.1"))
    broker.send(Heartbeat(GROUP_ID, "m1", 1, client_id="client", client_host="/127.0.0.1"))
    (described,) = broker.group.describe().members
    assert described.metadata == MemberMetadata(
        member_id="m1",
        rack_id="rack",
        client_id="client",
        client_host="/127.0.0.1",
        subscribed_topic_names=("orders",),
        subscribed_topic_regex="x.*",
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor="range",
    )


# Leaving and silence


def test_partitions_of_a_leaving_member_are_reassigned(broker: GroupOnALog) -> None:
    one, two = SimulatedMember(broker, "m1"), SimulatedMember(broker, "m2")
    settle(one, two)
    assert two.leave().member_epoch == -1
    assert broker.group.phase is GroupPhase.ASSIGNING
    one.heartbeat()
    assert one.owned == partitions("orders", range(4))
    assert broker.member_ids == {"m1"}


def test_an_unknown_member_cannot_leave(broker: GroupOnALog) -> None:
    assert refusal_of(broker, Heartbeat(GROUP_ID, "m1", -1)) == ErrorCode.UNKNOWN_MEMBER_ID
    assert refusal_of(broker, Heartbeat(GROUP_ID, "m1", -1, instance_id="one")) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_session_ends_on_the_millisecond(broker: GroupOnALog) -> None:
    member = SimulatedMember(broker, "m1")
    member.heartbeat()
    broker.advance(SESSION_MS - 1)
    member.heartbeat()
    broker.advance(SESSION_MS - 1)
    assert broker.member_ids == {"m1"}
    broker.advance(1)
    assert broker.member_ids == set()
    assert broker.group.phase is GroupPhase.EMPTY
    assert broker.group.next_deadline_ms() is None
    assert refusal_of(broker, member.request()) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_refused_heartbeat_does_not_prolong_a_session(broker: GroupOnALog) -> None:
    member = SimulatedMember(broker, "m1")
    member.heartbeat()
    broker.advance(SESSION_MS - 1)
    assert refusal_of(broker, replace(member.request(), member_epoch=7)) == ErrorCode.FENCED_MEMBER_EPOCH
    broker.advance(1)
    assert broker.group.is_empty


# Epochs


def test_epochs_from_elsewhere_are_fenced(broker: GroupOnALog) -> None:
    one, two = SimulatedMember(broker, "m1"), SimulatedMember(broker, "m2")
    settle(one, two)
    assert one.epoch == 2
    assert refusal_of(broker, replace(one.request(), member_epoch=3)) == ErrorCode.FENCED_MEMBER_EPOCH
    two.subscribe()
    settle(one, two)
    assert refusal_of(broker, replace(one.request(), member_epoch=1)) == ErrorCode.FENCED_MEMBER_EPOCH


def test_the_epoch_before_is_accepted_from_a_member_that_missed_an_answer(broker: GroupOnALog) -> None:
    one, two = SimulatedMember(broker, "m1"), SimulatedMember(broker, "m2")
    settle(one, two)
    two.leave()
    one.heartbeat(answer_is_lost=True)
    assert one.epoch == 2
    assert one.heartbeat().member_epoch == 3
    assert one.owned == partitions("orders", range(4))


def test_the_epoch_before_is_fenced_if_the_member_says_nothing_or_owns_too_much(broker: GroupOnALog) -> None:
    one = SimulatedMember(broker, "m1")
    settle(one)
    one.subscribe()
    settle(one)
    earlier = replace(one.request(), member_epoch=1)
    assert earlier.owned_partitions is None
    assert refusal_of(broker, earlier) == ErrorCode.FENCED_MEMBER_EPOCH
    too_much = replace(earlier, owned_partitions=partitions("orders", [0]))
    assert refusal_of(broker, too_much) == ErrorCode.FENCED_MEMBER_EPOCH
    broker.send(replace(earlier, owned_partitions=frozenset()))


def test_a_member_may_join_again_under_its_id(broker: GroupOnALog) -> None:
    member = SimulatedMember(broker, "m1")
    settle(member)
    member.drop_everything()
    assert member.heartbeat().member_epoch == 1
    assert member.owned == partitions("orders", range(4))


# Static members


def test_a_static_member_finds_its_partitions_again(broker: GroupOnALog) -> None:
    one = SimulatedMember(broker, "m1", instance_id="one")
    two = SimulatedMember(broker, "m2", instance_id="two")
    settle(one, two)
    had = one.owned
    assert one.leave(epoch=-2).member_epoch == -2
    two.heartbeat()
    assert len(two.owned) == 2
    back = SimulatedMember(broker, "m3", instance_id="one")
    back.heartbeat()
    assert back.owned == had
    assert (back.epoch, two.epoch) == (2, 2)  # nothing was rebalanced
    assert broker.member_ids == {"m2", "m3"}
    assert refusal_of(broker, Heartbeat(GROUP_ID, "m1", 2)) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_does_not_come_back_loses_its_place_with_its_session(broker: GroupOnALog) -> None:
    one = SimulatedMember(broker, "m1", instance_id="one")
    one.heartbeat()
    broker.advance(SESSION_MS - 1)
    one.leave(epoch=-2)
    broker.advance(1)
    assert broker.group.is_empty


def test_leaving_for_good_releases_the_instance_id(broker: GroupOnALog) -> None:
    one = SimulatedMember(broker, "m1", instance_id="one")
    one.heartbeat()
    one.leave()
    assert SimulatedMember(broker, "m2", instance_id="one").heartbeat().member_epoch == 3


def test_two_members_with_one_instance_id(broker: GroupOnALog) -> None:
    one = SimulatedMember(broker, "m1", instance_id="one")
    one.heartbeat()
    second = SimulatedMember(broker, "m2", instance_id="one")
    assert refusal_of(broker, second.request()) == ErrorCode.UNRELEASED_INSTANCE_ID
    one.leave(epoch=-2)
    second.heartbeat()
    for epoch in (1, -1, -2):
        zombie = Heartbeat(GROUP_ID, "m1", epoch, instance_id="one")
        assert refusal_of(broker, zombie) == ErrorCode.FENCED_INSTANCE_ID


def test_a_static_member_whose_join_was_not_answered_joins_again(broker: GroupOnALog) -> None:
    one = SimulatedMember(broker, "m1", instance_id="one")
    one.heartbeat(answer_is_lost=True)
    assert one.heartbeat().member_epoch == 1


def test_a_static_member_that_left_is_fenced_until_it_joins(broker: GroupOnALog) -> None:
    one = SimulatedMember(broker, "m1", instance_id="one")
    one.heartbeat()
    one.leave(epoch=-2)
    assert refusal_of(broker, Heartbeat(GROUP_ID, "m1", 1, instance_id="one")) == ErrorCode.FENCED_MEMBER_EPOCH
    assert one.heartbeat().member_epoch == 1
    assert one.owned == partitions("orders", range(4))


def test_an_unknown_instance_id(broker: GroupOnALog) -> None:
    assert refusal_of(broker, Heartbeat(GROUP_ID, "m1", 1, instance_id="one")) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_takes_the_place_of_a_static_one_gives_up_its_own(broker: GroupOnALog) -> None:
    """Two members become one: the partitions of the second must be assigned again."""
    static = SimulatedMember(broker, "m1", instance_id="one")
    other = SimulatedMember(broker, "m2")
    settle(static, other)
    static.leave(epoch=-2)
    other.drop_everything()
    other.instance_id = "one"
    settle(other)
    assert other.owned == partitions("orders", range(4))
    assert broker.member_ids == {"m2"}


# Requests that are wrong by themselves

JOIN = Heartbeat(
    GROUP_ID, "m1", 0, rebalance_timeout_ms=1, subscribed_topic_names=("orders",), owned_partitions=frozenset()
)


@pytest.mark.parametrize(
    "heartbeat",
    [
        replace(JOIN, member_id=""),
        replace(JOIN, group_id=""),
        replace(JOIN, instance_id=""),
        replace(JOIN, rack_id=""),
        replace(JOIN, rebalance_timeout_ms=-1),
        replace(JOIN, owned_partitions=None),
        replace(JOIN, owned_partitions=partitions("orders", [0])),
        replace(JOIN, subscribed_topic_names=None),
        Heartbeat(GROUP_ID, "m1", -2),
        Heartbeat(GROUP_ID, "m1", -3),
        Heartbeat(GROUP_ID, "", 1),
        Heartbeat(GROUP_ID, "", -1),
    ],
)
def test_invalid_requests(broker: GroupOnALog, heartbeat: Heartbeat) -> None:
    assert refusal_of(broker, heartbeat) == ErrorCode.INVALID_REQUEST


def test_before_version_1_a_member_may_ask_for_an_id() -> None:
    check_heartbeat(replace(JOIN, member_id=""), 0, SETTINGS)
    for epoch in (1, -1):
        with pytest.raises(BrokerError):
            check_heartbeat(Heartbeat(GROUP_ID, "", epoch), 0, SETTINGS)


def test_a_pattern_alone_is_a_subscription() -> None:
    check_heartbeat(replace(JOIN, subscribed_topic_names=None, subscribed_topic_regex=".*"), 1, SETTINGS)


def test_an_assignor_that_is_not_offered(broker: GroupOnALog) -> None:
    assert refusal_of(broker, replace(JOIN, server_assignor="sticky")) == ErrorCode.UNSUPPORTED_ASSIGNOR
    only_range = ConsumerGroupSettings(assignors=("range",))
    with pytest.raises(BrokerError):
        check_heartbeat(replace(JOIN, server_assignor="uniform"), 1, only_range)


def test_a_pattern_that_is_none(broker: GroupOnALog) -> None:
    assert refusal_of(broker, replace(JOIN, subscribed_topic_regex="(")) == ErrorCode.INVALID_REGULAR_EXPRESSION

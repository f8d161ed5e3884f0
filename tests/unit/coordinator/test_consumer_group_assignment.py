"""Assignment and reconciliation: rebalances step by step, revocation timeouts, changing topics."""

from __future__ import annotations

from dataclasses import replace

from penstock.coordinator.assignors import RANGE
from penstock.coordinator.consumer_group_changes import MemberState
from penstock.coordinator.consumer_group_messages import HeartbeatResult
from penstock.coordinator.consumer_group_state import GroupPhase
from penstock.coordinator.topic_partitions import Topic
from tests.unit.coordinator.consumer_group_harness import (
    REBALANCE_MS,
    SETTINGS,
    GroupOnALog,
    SimulatedMember,
    partitions,
    settle,
    topic_id,
    topics,
)


def state_of(member: SimulatedMember) -> MemberState:
    return member.broker.group.state.current(member.member_id).state


def two_members(catalogue: dict[str, Topic]) -> tuple[GroupOnALog, SimulatedMember, SimulatedMember]:
    """One that has everything and a second that has just joined."""
    broker = GroupOnALog(catalogue)
    one, two = SimulatedMember(broker, "m1"), SimulatedMember(broker, "m2")
    one.heartbeat()
    two.heartbeat()
    return broker, one, two


# Step by step


def test_a_partition_changes_hands_only_when_it_was_given_up() -> None:
    broker, one, two = two_members(topics(orders=2))
    assert two.owned == frozenset()
    assert (two.epoch, state_of(two)) == (2, MemberState.UNRELEASED_PARTITIONS)
    assert broker.group.describe().phase is GroupPhase.RECONCILING

    one.heartbeat()
    assert one.assignment == partitions("orders", [0])
    assert (one.epoch, state_of(one)) == (1, MemberState.UNREVOKED_PARTITIONS)
    one.heartbeat()  # still busy with what it has to give up
    two.heartbeat()
    assert two.owned == frozenset()

    one.give_up_the_rest()
    one.heartbeat()
    assert (one.epoch, state_of(one)) == (2, MemberState.STABLE)
    two.heartbeat()
    assert two.owned == partitions("orders", [1])
    assert (two.epoch, state_of(two)) == (2, MemberState.STABLE)
    assert broker.group.phase is GroupPhase.STABLE


def test_giving_up_some_is_not_enough() -> None:
    _, one, two = two_members(topics(orders=4))
    one.heartbeat()
    one.owned = one.assignment | partitions("orders", [3])
    one.heartbeat()
    assert state_of(one) is MemberState.UNREVOKED_PARTITIONS
    two.heartbeat()
    assert two.owned == frozenset()


def test_a_member_that_reports_nothing_has_given_up_nothing() -> None:
    _, one, _ = two_members(topics(orders=2))
    one.heartbeat()
    one.give_up_the_rest()
    one.reported = one.owned  # it does not say so
    one.heartbeat()
    assert state_of(one) is MemberState.UNREVOKED_PARTITIONS


def test_a_member_that_owns_nothing_to_give_up_goes_on_at_once() -> None:
    """It rejoins while it has to revoke partitions: it has none any more."""
    _, one, two = two_members(topics(orders=2))
    one.heartbeat()
    one.drop_everything()
    one.heartbeat()
    assert (one.epoch, state_of(one)) == (2, MemberState.STABLE)
    two.heartbeat()
    assert two.owned == partitions("orders", [1])


def test_free_partitions_come_as_they_become_free() -> None:
    broker = GroupOnALog(topics(orders=6))
    one, two, three = (SimulatedMember(broker, name) for name in ("m1", "m2", "m3"))
    settle(one, two)
    three.heartbeat()
    for giver in (one, two):
        giver.heartbeat()
        giver.give_up_the_rest()
        giver.heartbeat()
        three.heartbeat()
    assert len(three.owned) == 2
    assert state_of(three) is MemberState.STABLE


def test_a_newer_target_overtakes_an_older_one() -> None:
    """The second leaves before the first has revoked anything: the first keeps everything."""
    broker, one, two = two_members(topics(orders=2))
    one.heartbeat()
    two.leave()
    one.give_up_the_rest()
    one.heartbeat()
    assert one.owned == partitions("orders", [0, 1])
    assert (one.epoch, state_of(one)) == (3, MemberState.STABLE)
    assert broker.group.phase is GroupPhase.STABLE


def test_members_beyond_the_partitions_stay_idle() -> None:
    broker = GroupOnALog(topics(orders=1))
    one, two = SimulatedMember(broker, "m1"), SimulatedMember(broker, "m2")
    settle(one, two)
    assert sorted([len(one.owned), len(two.owned)]) == [0, 1]
    assert broker.group.phase is GroupPhase.STABLE


# The time to revoke


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    broker, one, two = two_members(topics(orders=2))
    one.heartbeat()
    for _ in range(2):
        broker.advance(REBALANCE_MS // 2 - 1)
        one.heartbeat()  # alive, but it does not give up what it should
        two.heartbeat()
    broker.advance(1)
    assert "m1" in broker.member_ids
    broker.advance(1)
    assert broker.member_ids == {"m2"}
    two.heartbeat()
    assert two.owned == partitions("orders", [0, 1])


def test_a_member_that_revoked_in_time_is_left_alone() -> None:
    broker, one, two = two_members(topics(orders=2))
    one.heartbeat()
    broker.advance(REBALANCE_MS - 1)
    one.give_up_the_rest()
    settle(one, two, rounds=5)
    broker.advance(REBALANCE_MS)
    assert broker.member_ids == {"m1", "m2"}


def test_a_static_member_that_leaves_for_a_while_has_nothing_to_revoke() -> None:
    broker = GroupOnALog(topics(orders=2))
    one = SimulatedMember(broker, "m1", instance_id="one")
    two = SimulatedMember(broker, "m2")
    one.heartbeat()
    two.heartbeat()
    one.heartbeat()
    one.leave(epoch=-2)
    two.heartbeat()
    assert two.owned == partitions("orders", [1])
    broker.advance(REBALANCE_MS)
    assert broker.member_ids == {"m1", "m2"}


# Assignors


def test_the_assignor_that_most_members_ask_for_is_used() -> None:
    broker = GroupOnALog(topics(orders=5))
    members = [SimulatedMember(broker, f"m{number}", assignor=RANGE) for number in range(2)]
    members.append(SimulatedMember(broker, "m2"))
    settle(*members)
    assert broker.group.describe().assignor_name == RANGE
    assert [len(member.owned) for member in members] == [2, 2, 1]
    assert members[0].owned == partitions("orders", [0, 1])


def test_without_a_wish_the_first_of_the_settings_is_used() -> None:
    assert GroupOnALog(topics()).group.describe().assignor_name == "uniform"


# Topics and subscriptions


def news(result: HeartbeatResult) -> list[tuple[bytes, tuple[int, ...]]]:
    return list(result.assignment or ())


def test_added_partitions_are_assigned() -> None:
    broker = GroupOnALog(topics(orders=2))
    one = SimulatedMember(broker, "m1")
    settle(one)
    broker.change_topics(topics(orders=3))
    assert news(one.heartbeat()) == [(topic_id("orders"), (0, 1, 2))]
    assert one.epoch == 2


def test_a_topic_that_is_created_later_is_picked_up() -> None:
    broker = GroupOnALog(topics())
    one = SimulatedMember(broker, "m1")
    settle(one)
    assert one.owned == frozenset()
    broker.change_topics(topics(orders=1))
    one.heartbeat()
    assert one.owned == partitions("orders", [0])


def test_other_topics_do_not_concern_the_group() -> None:
    broker = GroupOnALog(topics(orders=2))
    one = SimulatedMember(broker, "m1")
    settle(one)
    broker.change_topics(topics(orders=2, payments=9))
    _, changes = broker.group.heartbeat(one.request(), broker.now_ms)
    assert changes == []


def test_a_deleted_topic_is_given_up() -> None:
    broker = GroupOnALog(topics(orders=2, payments=1))
    one = SimulatedMember(broker, "m1", topic_names=("orders", "payments"))
    settle(one)
    broker.change_topics(topics(payments=1))
    settle(one)
    assert one.owned == partitions("payments", [0])
    assert broker.group.phase is GroupPhase.STABLE


def test_a_topic_that_is_created_again_is_another_one() -> None:
    broker = GroupOnALog(topics(orders=1))
    one = SimulatedMember(broker, "m1")
    settle(one)
    broker.change_topics({"orders": Topic(topic_id("orders", 1), "orders", 1)})
    settle(one)
    assert [partition.topic_id for partition in one.owned] == [topic_id("orders", 1)]


def test_a_changed_subscription_is_reassigned() -> None:
    broker = GroupOnALog(topics(orders=2, payments=2))
    one, two = SimulatedMember(broker, "m1"), SimulatedMember(broker, "m2")
    settle(one, two)
    one.subscribe("payments")
    settle(one, two)
    assert one.owned == partitions("payments", [0, 1])
    assert two.owned == partitions("orders", [0, 1])


def test_a_pattern_follows_the_topics() -> None:
    broker = GroupOnALog(topics(orders_eu=1, payments=1))
    one = SimulatedMember(broker, "m1", topic_names=(), regex="orders_.*")
    settle(one)
    assert one.owned == partitions("orders_eu", [0])
    broker.change_topics(topics(orders_eu=1, orders_us=1, payments=1))
    settle(one)
    assert one.owned == partitions("orders_eu", [0]) | partitions("orders_us", [0])
    assert broker.group.is_subscribed_to("orders_us")
    assert not broker.group.is_subscribed_to("payments")


def test_names_and_a_pattern_add_up_and_an_empty_pattern_takes_it_back() -> None:
    broker = GroupOnALog(topics(orders=1, payments=1))
    one = SimulatedMember(broker, "m1", topic_names=("orders",), regex="pay.*")
    settle(one)
    assert len(one.owned) == 2
    one.regex = ""
    one.must_send_all = True
    settle(one)
    assert one.owned == partitions("orders", [0])


def test_members_stay_with_the_last_target_for_the_assignment_interval() -> None:
    """A client that unsubscribes and subscribes within milliseconds meets one assignment, not one for each step."""
    broker = GroupOnALog(topics(orders=2), replace(SETTINGS, assignment_interval_ms=1000))
    one, two = SimulatedMember(broker, "one"), SimulatedMember(broker, "two")
    one.heartbeat()
    assert one.owned == partitions("orders", [0, 1])
    broker.advance(10)
    two.heartbeat()
    assert (two.epoch, two.owned) == (one.epoch, frozenset())
    assert one.heartbeat().assignment is None
    broker.restart()
    broker.advance(989)
    assert one.heartbeat().assignment is None  # the interval goes on after a restart
    broker.advance(1)
    for _ in range(3):
        for member in (one, two):
            member.heartbeat()
            member.give_up_the_rest()
    assert {len(one.owned), len(two.owned)} == {1}
    broker.advance(10)
    for names in (("bills",), ("orders",)):
        two.subscribe(*names)
        two.heartbeat()
        two.give_up_the_rest()
    assert len(two.owned) == 1
    broker.now_ms -= 60_000  # a clock that was set back does not hold the group up
    one.heartbeat()
    assert broker.group.state.target.assignment_epoch == broker.group.state.group.epoch

"""Queries of a consumer group: offset commits and fetches, description, deletion; and its restore from the log."""

from __future__ import annotations

import pytest

from penstock.coordinator.consumer_group import ConsumerGroup
from penstock.coordinator.consumer_group_changes import (
    ConsumerGroupChange,
    CurrentAssignment,
    CurrentAssignmentChanged,
    GroupEpochChanged,
    MemberMetadata,
    MemberMetadataChanged,
    TargetAssignmentChanged,
    TargetEpochChanged,
)
from penstock.coordinator.consumer_group_description import DescribedTopicPartitions
from penstock.coordinator.consumer_group_state import ConsumerGroupState
from penstock.coordinator.topic_partitions import by_topic
from penstock.core.ids import TopicIdPartition
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.unit.coordinator.consumer_group_harness import (
    REBALANCE_MS,
    SESSION_MS,
    SETTINGS,
    GroupOnALog,
    SimulatedMember,
    partitions,
    settle,
    topic_id,
    topics,
)


@pytest.fixture
def broker() -> GroupOnALog:
    return GroupOnALog(topics(orders=2))


def may_commit(
    broker: GroupOnALog,
    member_id: str,
    epoch: int,
    *,
    instance_id: str | None = None,
    api_version: int = 9,
    transactional: bool = False,
) -> frozenset[TopicIdPartition] | None:
    return broker.group.check_offset_commit(
        member_id, instance_id, epoch, api_version=api_version, transactional=transactional
    )


# Offsets


def test_a_member_commits_under_its_epoch(broker: GroupOnALog) -> None:
    settle(SimulatedMember(broker, "m1"))
    assert may_commit(broker, "m1", 1) is None
    for epoch in (2, 99):
        with pytest.raises(BrokerError) as refusal:
            may_commit(broker, "m1", epoch)
        assert refusal.value.code == ErrorCode.STALE_MEMBER_EPOCH


def test_under_an_older_epoch_a_member_commits_what_it_has_had_since(broker: GroupOnALog) -> None:
    one, two = SimulatedMember(broker, "m1"), SimulatedMember(broker, "m2")
    settle(one, two)
    assert may_commit(broker, "m1", 1) == partitions("orders", [0])
    assert may_commit(broker, "m2", 1) == frozenset()
    assert may_commit(broker, "m1", 0) == frozenset()


def test_what_is_being_given_up_may_still_be_committed(broker: GroupOnALog) -> None:
    one = SimulatedMember(broker, "m1")
    settle(one)
    one.subscribe()
    one.heartbeat()
    assert may_commit(broker, "m1", 1) is None
    one.give_up_the_rest()
    one.heartbeat()
    assert may_commit(broker, "m1", 1) == frozenset()


def test_a_returning_static_member_commits_for_the_former_one(broker: GroupOnALog) -> None:
    one, two = SimulatedMember(broker, "m1", instance_id="one"), SimulatedMember(broker, "m2", instance_id="two")
    settle(one, two)
    assert may_commit(broker, "m2", 1) == frozenset()  # it got its partition in epoch 2
    two.leave(epoch=-2)
    SimulatedMember(broker, "m3", instance_id="two").heartbeat()
    assert may_commit(broker, "m3", 1) == partitions("orders", [1])


def test_only_an_empty_group_takes_offsets_from_strangers(broker: GroupOnALog) -> None:
    assert may_commit(broker, "", -1) is None
    settle(SimulatedMember(broker, "m1"))
    for member_id, epoch in (("", -1), ("m2", 1)):
        with pytest.raises(BrokerError) as refusal:
            may_commit(broker, member_id, epoch)
        assert refusal.value.code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_transaction_may_leave_out_who_it_commits_for(broker: GroupOnALog) -> None:
    settle(SimulatedMember(broker, "m1"))
    assert may_commit(broker, "", -1, transactional=True) is None
    with pytest.raises(BrokerError) as refusal:
        may_commit(broker, "", -1, instance_id="one", transactional=True)
    assert refusal.value.code == ErrorCode.UNKNOWN_MEMBER_ID
    assert may_commit(broker, "m1", 1, transactional=True, api_version=3) is None


def test_a_commit_that_knows_no_epochs_is_refused(broker: GroupOnALog) -> None:
    settle(SimulatedMember(broker, "m1"))
    with pytest.raises(BrokerError) as refusal:
        may_commit(broker, "m1", 1, api_version=8)
    assert refusal.value.code == ErrorCode.UNSUPPORTED_VERSION


def test_offsets_are_fetched_by_strangers_and_by_members_of_the_right_epoch(broker: GroupOnALog) -> None:
    settle(SimulatedMember(broker, "m1"))
    broker.group.check_offset_fetch(None, -1)
    broker.group.check_offset_fetch("m1", 1)
    for member_id, epoch, code in (
        ("m1", 0, ErrorCode.STALE_MEMBER_EPOCH),
        ("m1", 2, ErrorCode.STALE_MEMBER_EPOCH),
        ("m2", 1, ErrorCode.UNKNOWN_MEMBER_ID),
        (None, 1, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(BrokerError) as refusal:
            broker.group.check_offset_fetch(member_id, epoch)
        assert refusal.value.code == code


# Description


def test_a_group_describes_where_its_members_are_and_where_they_go(broker: GroupOnALog) -> None:
    one, two = SimulatedMember(broker, "m1"), SimulatedMember(broker, "m2")
    one.heartbeat()
    two.heartbeat()
    described = broker.group.describe()
    assert (described.group_id, described.phase, described.group_epoch) == ("group", "Reconciling", 2)
    assert (described.assignment_epoch, described.assignor_name) == (2, "uniform")
    first, second = described.members
    both = DescribedTopicPartitions(topic_id("orders"), "orders", (0, 1))
    assert (first.member_epoch, first.assignment) == (1, (both,))
    assert [each.partitions for each in first.target_assignment] == [(0,)]
    assert (second.member_epoch, second.assignment) == (2, ())
    assert [each.partitions for each in second.target_assignment] == [(1,)]


def test_a_description_leaves_out_deleted_topics(broker: GroupOnALog) -> None:
    settle(SimulatedMember(broker, "m1"))
    broker.change_topics(topics())
    (member,) = broker.group.describe().members
    assert member.assignment == ()


def test_a_subscription_counts_before_its_topic_is_there(broker: GroupOnALog) -> None:
    settle(SimulatedMember(broker, "m1", topic_names=("later",)))
    assert broker.group.is_subscribed_to("later")
    assert not broker.group.is_subscribed_to("orders")


def test_partitions_are_listed_by_topic_in_order() -> None:
    assert by_topic(partitions("b", [1, 0]) | partitions("a", [2])) == ((topic_id("a"), (2,)), (topic_id("b"), (0, 1)))


# The log


def test_what_a_join_writes(broker: GroupOnALog) -> None:
    _, changes = broker.group.heartbeat(SimulatedMember(broker, "m1").request(), broker.now_ms)
    assert [type(change) for change in changes] == [
        MemberMetadataChanged,
        GroupEpochChanged,
        TargetAssignmentChanged,
        TargetEpochChanged,
        CurrentAssignmentChanged,
    ]


def test_nothing_of_a_member_stays_in_the_log(broker: GroupOnALog) -> None:
    one = SimulatedMember(broker, "m1", instance_id="one")
    settle(one)
    one.leave(epoch=-2)
    settle(back := SimulatedMember(broker, "m2", instance_id="one"))
    back.leave()
    assert {key for key in broker.log if key[1] is not None} == set()  # type: ignore[index]
    broker.write(broker.group.delete())
    assert broker.log == {}


def test_only_an_empty_group_is_deleted(broker: GroupOnALog) -> None:
    settle(SimulatedMember(broker, "m1"))
    with pytest.raises(BrokerError) as refusal:
        broker.group.delete()
    assert refusal.value.code == ErrorCode.NON_EMPTY_GROUP


def test_a_restart_in_the_middle_of_a_rebalance_goes_on_where_it_was(broker: GroupOnALog) -> None:
    one, two = SimulatedMember(broker, "m1"), SimulatedMember(broker, "m2")
    one.heartbeat()
    two.heartbeat()
    one.heartbeat()
    broker.restart()
    two.heartbeat()
    assert two.owned == frozenset()  # the first has not given anything up
    settle(one, two)
    assert (one.owned, two.owned) == (partitions("orders", [0]), partitions("orders", [1]))
    assert (one.epoch, two.epoch) == (2, 2)


def test_after_a_restart_session_timeouts_start_again(broker: GroupOnALog) -> None:
    one, two = SimulatedMember(broker, "m1"), SimulatedMember(broker, "m2")
    one.heartbeat()
    two.heartbeat()
    one.heartbeat()
    broker.advance(REBALANCE_MS - 1)
    broker.restart()
    broker.advance(REBALANCE_MS - 1)
    assert broker.member_ids == {"m1", "m2"}
    broker.advance(1)
    assert broker.member_ids == {"m2"}
    broker.advance(SESSION_MS - REBALANCE_MS)
    assert broker.member_ids == set()


def test_topics_that_changed_while_the_broker_was_down_are_noticed(broker: GroupOnALog) -> None:
    one = SimulatedMember(broker, "m1")
    settle(one)
    broker.catalogue = topics(orders=3)
    broker.restart()
    settle(one)
    assert one.owned == partitions("orders", range(3))


def test_a_restart_alone_does_not_rebalance(broker: GroupOnALog) -> None:
    one = SimulatedMember(broker, "m1")
    settle(one)
    broker.restart()
    _, changes = broker.group.heartbeat(one.request(), broker.now_ms)
    assert changes == []


def test_restore_skips_changes_of_removed_members(broker: GroupOnALog) -> None:
    leftovers: list[ConsumerGroupChange] = [
        TargetAssignmentChanged("gone", partitions("orders", [0])),
        CurrentAssignmentChanged("gone", CurrentAssignment(1, 0, assigned=dict.fromkeys(partitions("orders", [0]), 1))),
    ]
    broker.group = ConsumerGroup.restore("group", SETTINGS, broker.catalogue, leftovers, broker.now_ms)
    one = SimulatedMember(broker, "m1")
    one.heartbeat()
    assert one.owned == partitions("orders", [0, 1])


def test_two_that_claim_one_partition_do_not_harm_each_other() -> None:
    """Our groups never write this. A restored group must not reassign the partition while either member has it."""
    (partition,) = partitions("orders", [0])
    state = ConsumerGroupState()
    for name in ("m1", "m2"):
        state.apply(CurrentAssignmentChanged(name, CurrentAssignment(1, 0, assigned={partition: 1})))
    state.apply(CurrentAssignmentChanged("m1", None))
    assert state.owners == {partition: "m2"}
    state.apply(CurrentAssignmentChanged("m2", None))
    assert state.owners == {}


def test_a_pattern_of_another_implementation_matches_nothing_here(broker: GroupOnALog) -> None:
    metadata = MemberMetadata("m1", subscribed_topic_regex=r"\p{Greek}+")
    changes = [MemberMetadataChanged("m1", metadata)]
    broker.group = ConsumerGroup.restore("group", SETTINGS, broker.catalogue, changes, broker.now_ms)
    two = SimulatedMember(broker, "m2")
    two.heartbeat()
    assert two.owned == partitions("orders", [0, 1])

"""The range assignor by its rule; the uniform assignor by its properties: optimal balance and few moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.coordinator.assignors import ASSIGNORS, AssignableMember, Assignment, assign_range, assign_uniform
from penstock.core.ids import TopicIdPartition
from tests.unit.coordinator.consumer_group_harness import partitions, topic_id

A, B, C = topic_id("a"), topic_id("b"), topic_id("c")


def member(
    name: str, *topic_ids: bytes, held: frozenset[TopicIdPartition] = frozenset(), instance_id: str | None = None
) -> AssignableMember:
    return AssignableMember(name, instance_id, frozenset(topic_ids), held)


def loads(assignment: Assignment) -> list[int]:
    return [len(assignment[name]) for name in sorted(assignment)]


def moved(members: Sequence[AssignableMember], assignment: Assignment) -> int:
    """The number of partitions that moved from one member to another."""
    return sum(len(each.assigned - assignment[each.member_id]) for each in members)


# Range


@pytest.mark.parametrize(
    ("partition_count", "member_count", "expected"),
    [
        (6, 3, [[0, 1], [2, 3], [4, 5]]),
        (10, 4, [[0, 1, 2], [3, 4, 5], [6, 7, 8], [9]]),
        (5, 4, [[0, 1], [2, 3], [4], []]),
        (7, 1, [[0, 1, 2, 3, 4, 5, 6]]),
        (2, 4, [[0], [1], [], []]),
        (0, 2, [[], []]),
    ],
)
def test_range_gives_member_i_the_partitions_from_i_times_n(
    partition_count: int, member_count: int, expected: list[list[int]]
) -> None:
    members = [member(f"m{number}", A) for number in range(member_count)]
    assignment = assign_range(members, {A: partition_count})
    assert [sorted(index for _, index in assignment[each.member_id]) for each in members] == expected


def test_range_leaves_out_members_that_do_not_subscribe_to_the_topic() -> None:
    members = [member("m0", B), member("m1", A, B), member("m2", A)]
    assignment = assign_range(members, {A: 4, B: 3})
    assert assignment == {
        "m0": partitions("b", [0, 1]),
        "m1": partitions("a", [0, 1]) | partitions("b", [2]),
        "m2": partitions("a", [2, 3]),
    }


def test_range_keeps_the_place_of_a_static_member_whose_member_id_changed() -> None:
    before = assign_range([member("x", A, instance_id="one"), member("y", A, instance_id="two")], {A: 4})
    after = assign_range([member("z", A, instance_id="one"), member("y", A, instance_id="two")], {A: 4})
    assert before["x"] == after["z"]
    assert before["y"] == after["y"]


# Uniform


def test_uniform_spreads_evenly() -> None:
    members = [member(f"m{number}", A, B) for number in range(4)]
    assert sorted(loads(assign_uniform(members, {A: 5, B: 5}))) == [2, 2, 3, 3]


def test_uniform_leaves_members_beyond_the_partitions_idle() -> None:
    members = [member(f"m{number}", A) for number in range(4)]
    assert sorted(loads(assign_uniform(members, {A: 2}))) == [0, 0, 1, 1]


def test_uniform_moves_only_what_a_new_member_needs() -> None:
    members = [
        member("m0", A, held=partitions("a", range(3))),
        member("m1", A, held=partitions("a", range(3, 6))),
        member("m2", A),
    ]
    assignment = assign_uniform(members, {A: 6})
    assert loads(assignment) == [2, 2, 2]
    assert moved(members, assignment) == 2


def test_uniform_moves_nothing_when_a_member_dies() -> None:
    members = [member("m0", A, held=partitions("a", range(3))), member("m2", A, held=partitions("a", range(6, 9)))]
    assignment = assign_uniform(members, {A: 9})
    assert sorted(loads(assignment)) == [4, 5]
    assert moved(members, assignment) == 0


def test_uniform_takes_from_the_heaviest_and_gives_to_the_lightest() -> None:
    """Five, none and three: two moves suffice, and passing through the third would take more."""
    members = [
        member("m0", A, held=partitions("a", range(5))),
        member("m1", A),
        member("m2", A, held=partitions("a", range(5, 8))),
    ]
    assignment = assign_uniform(members, {A: 8})
    assert sorted(loads(assignment)) == [2, 3, 3]
    assert moved(members, assignment) == 2


def test_uniform_drops_deleted_and_unsubscribed_topics() -> None:
    members = [
        member("m0", A, held=partitions("a", [0, 1, 7]) | partitions("b", [0])),
        member("m1", B, held=partitions("c", [0])),
    ]
    assert assign_uniform(members, {A: 2, B: 1}) == {"m0": partitions("a", [0, 1]), "m1": partitions("b", [0])}


def test_uniform_passes_partitions_along_a_chain_of_subscriptions() -> None:
    """The first cannot give to the third directly: what it has, the third does not subscribe to."""
    members = [
        member("m0", A, held=partitions("a", range(3))),
        member("m1", A, B, held=partitions("b", range(2))),
        member("m2", B, held=partitions("b", [2])),
    ]
    assignment = assign_uniform(members, {A: 3, B: 3})
    assert loads(assignment) == [2, 2, 2]
    assert moved(members, assignment) == 2


def test_uniform_gives_a_partition_that_two_claim_to_one() -> None:
    members = [member(name, A, held=partitions("a", [0])) for name in ("m0", "m1")]
    assert loads(assign_uniform(members, {A: 1})) == [1, 0]


def test_a_group_of_fifty_over_five_hundred_partitions_stays_balanced_join_by_join() -> None:
    members: list[AssignableMember] = []
    held: Mapping[str, frozenset[TopicIdPartition]] = {}
    for number in range(50):
        names = [f"m{each:02}" for each in range(number + 1)]
        members = [member(name, A, held=held.get(name, frozenset())) for name in names]
        held = assign_uniform(members, {A: 500})
        assert max(loads(dict(held))) - min(loads(dict(held))) <= 1
        assert moved(members, dict(held)) == (0 if number == 0 else 500 // (number + 1))


# Both


@st.composite
def groups(draw: st.DrawFn) -> tuple[list[AssignableMember], dict[bytes, int]]:
    """Members with any subscriptions, and an earlier assignment that may be unbalanced, outdated or empty."""
    counts = {topic: draw(st.integers(0, 6)) for topic in (A, B, C)}
    member_count = draw(st.integers(1, 5))
    subscriptions = [draw(st.frozensets(st.sampled_from([A, B, C]))) for _ in range(member_count)]
    earlier = st.integers(0, member_count * 2)
    holders = {TopicIdPartition(topic, index): draw(earlier) for topic in counts for index in range(7)}
    members = [
        AssignableMember(
            f"m{number}",
            draw(st.none() | st.just(f"i{number}")),
            subscriptions[number],
            frozenset(partition for partition, holder in holders.items() if holder == number),
        )
        for number in range(member_count)
    ]
    return members, counts


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
@given(group=groups(), rotation=st.integers(0, 4))
def test_every_subscribed_partition_goes_to_exactly_one_subscriber(
    name: str, group: tuple[list[AssignableMember], dict[bytes, int]], rotation: int
) -> None:
    members, counts = group
    assignment = ASSIGNORS[name](members, counts)
    subscribed = {topic for each in members for topic in each.topic_ids}
    expected = [TopicIdPartition(topic, index) for topic in subscribed for index in range(counts[topic])]
    assert sorted(partition for held in assignment.values() for partition in held) == sorted(expected)
    for each in members:
        assert {partition.topic_id for partition in assignment[each.member_id]} <= each.topic_ids
    turned = members[rotation % len(members) :] + members[: rotation % len(members)]
    assert ASSIGNORS[name](turned, counts) == assignment


@given(group=groups())
def test_uniform_is_as_balanced_as_subscriptions_allow(
    group: tuple[list[AssignableMember], dict[bytes, int]],
) -> None:
    """No chain of members leads from a heavier one to one that is lighter by two or more."""
    members, counts = group
    assignment = assign_uniform(members, counts)
    for giver in members:
        reachable = {giver.member_id}
        while True:
            topics = {topic for name in reachable for topic, _ in assignment[name]}
            wider = reachable | {each.member_id for each in members if each.topic_ids & topics}
            if wider == reachable:
                break
            reachable = wider
        lightest = min(len(assignment[name]) for name in reachable)
        assert len(assignment[giver.member_id]) - lightest <= 1


@given(group=groups())
def test_uniform_is_content_with_its_own_assignment(
    group: tuple[list[AssignableMember], dict[bytes, int]],
) -> None:
    members, counts = group
    assignment = assign_uniform(members, counts)
    settled = [
        AssignableMember(each.member_id, each.instance_id, each.topic_ids, assignment[each.member_id])
        for each in members
    ]
    assert assign_uniform(settled, counts) == assignment

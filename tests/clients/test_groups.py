"""Consumers share topics in groups: they split the partitions, go on where the group was, and hand over."""

from __future__ import annotations

import time
from collections.abc import Iterable

import pytest

from tests.clients.conftest import Join, NewTopic
from tests.clients.group_interface import (
    ASSIGNED,
    HEARTBEAT_INTERVAL_MS,
    LOST,
    REVOKED,
    GroupMember,
)
from tests.clients.interface import KafkaClient
from tests.clients.records import numbered
from tests.clients.waiting import eventually

pytestmark = pytest.mark.clients

PARTITIONS = frozenset(range(4))
# A rebalance takes a second; this is patience for a busy machine.
SETTLE_S = 20


def _fill(writer: KafkaClient, topic: str, partitions: Iterable[int], count: int) -> None:
    for partition in partitions:
        writer.produce(topic, partition, numbered(count))


def _received(member: GroupMember) -> list[tuple[int, int]]:
    return sorted((each.partition, each.offset) for each in member.state().received)


def _offsets(partitions: Iterable[int], offsets: range) -> list[tuple[int, int]]:
    return [(partition, offset) for partition in partitions for offset in offsets]


def _await_received(member: GroupMember, expected: list[tuple[int, int]]) -> None:
    eventually(lambda: len(_received(member)) >= len(expected), SETTLE_S)
    assert _received(member) == expected


def _await_assigned(member: GroupMember, partitions: Iterable[int]) -> None:
    eventually(lambda: member.state().assigned == set(partitions), SETTLE_S)
    assert member.state().assigned == set(partitions)


def _await_shared(first: GroupMember, second: GroupMember) -> tuple[set[int], set[int]]:
    """Waits until both have two of the four partitions, and returns them."""

    def shares() -> tuple[set[int], set[int]]:
        return first.state().assigned, second.state().assigned

    eventually(lambda: all(len(share) == 2 for share in shares()), SETTLE_S)
    mine, yours = shares()
    assert (len(mine), len(yours), mine | yours) == (2, 2, set(PARTITIONS))
    return mine, yours


def _assert_kept(member: GroupMember, kept: set[int]) -> None:
    """What the member has now it got once and never gave up; all else it gave up once."""
    rebalances = member.state().rebalances
    given = [partition for kind, partitions in rebalances if kind == ASSIGNED for partition in partitions]
    taken = [partition for kind, partitions in rebalances if kind in (REVOKED, LOST) for partition in partitions]
    assert sorted(given) == sorted(PARTITIONS)
    assert sorted(taken) == sorted(PARTITIONS - kept)


@pytest.mark.feature("group, commit and go on")
def test_second_consumer_goes_on_from_the_commit(
    reference: KafkaClient, join: Join, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(partitions=2)
    _fill(reference, topic, (0, 1), 3)
    first = join(group, topic)
    _await_received(first, _offsets((0, 1), range(3)))
    first.commit()
    assert reference.committed(group, topic) == {0: 3, 1: 3}
    first.close()
    _fill(reference, topic, (0, 1), 2)
    _await_received(join(group, topic), _offsets((0, 1), range(3, 5)))


@pytest.mark.feature("group, auto commit")
def test_commits_by_itself(reference: KafkaClient, join: Join, new_topic: NewTopic, group: str) -> None:
    topic = new_topic(partitions=2)
    _fill(reference, topic, (0, 1), 3)
    first = join(group, topic, auto_commit=True)
    _await_received(first, _offsets((0, 1), range(3)))
    assert eventually(lambda: reference.committed(group, topic) == {0: 3, 1: 3})
    first.close()
    _fill(reference, topic, (0, 1), 2)
    _await_received(join(group, topic, auto_commit=True), _offsets((0, 1), range(3, 5)))


@pytest.mark.feature("group, share and hand over")
def test_members_share_the_partitions(reference: KafkaClient, join: Join, new_topic: NewTopic, group: str) -> None:
    topic = new_topic(partitions=len(PARTITIONS))
    stays, leaves = join(group, topic), join(group, topic)
    _stays_share, leaves_share = _await_shared(stays, leaves)
    _fill(reference, topic, PARTITIONS, 1)
    assert eventually(lambda: len(_received(stays)) + len(_received(leaves)) == len(PARTITIONS))
    assert _received(leaves) == _offsets(sorted(leaves_share), range(1))
    leaves.close()
    _await_assigned(stays, PARTITIONS)


@pytest.mark.feature("group, {assignor} assignor", assignor=["range", "roundrobin"])
def test_eager_assignor(join: Join, assignor: str, new_topic: NewTopic, group: str) -> None:
    topic = new_topic(partitions=len(PARTITIONS))
    members = [join(group, topic, assignor=assignor) for _ in range(2)]
    shares = _await_shared(*members)
    expected = [{0, 1}, {2, 3}] if assignor == "range" else [{0, 2}, {1, 3}]
    assert sorted(shares, key=min) == expected


@pytest.mark.feature("group, cooperative-sticky assignor")
def test_cooperative_assignor(join: Join, new_topic: NewTopic, group: str) -> None:
    topic = new_topic(partitions=len(PARTITIONS))
    first = join(group, topic, assignor="cooperative-sticky")
    _await_assigned(first, PARTITIONS)
    second = join(group, topic, assignor="cooperative-sticky")
    kept, _moved = _await_shared(first, second)
    _assert_kept(first, kept)
    second.close()
    _await_assigned(first, PARTITIONS)


@pytest.mark.feature("group, static member")
def test_static_member_keeps_its_partitions(
    reference: KafkaClient, join: Join, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(partitions=len(PARTITIONS))
    restarted, other = join(group, topic, instance_id="restarted"), join(group, topic)
    share, _ = _await_shared(restarted, other)
    rebalances = other.state().rebalances
    restarted.close()
    again = join(group, topic, instance_id="restarted")
    _await_assigned(again, share)
    _fill(reference, topic, share, 1)
    _await_received(again, _offsets(sorted(share), range(1)))
    time.sleep(3 * HEARTBEAT_INTERVAL_MS / 1000)  # a rebalance would have reached the other member by now
    assert other.state().rebalances == rebalances


@pytest.mark.feature("group, independent of others")
def test_groups_are_independent(reference: KafkaClient, join: Join, new_topic: NewTopic, group: str) -> None:
    topic = new_topic(partitions=2)
    _fill(reference, topic, (0, 1), 3)
    first = join(group, topic, auto_commit=True)
    _await_received(first, _offsets((0, 1), range(3)))
    assert eventually(lambda: reference.committed(group, topic) == {0: 3, 1: 3})
    other_group = f"{group}-other"
    assert reference.committed(other_group, topic) == {}
    other = join(other_group, topic)
    _await_received(other, _offsets((0, 1), range(3)))
    assert first.state().assigned == other.state().assigned == {0, 1}


@pytest.mark.feature("group.protocol=consumer, {remote_assignor} assignor", remote_assignor=["uniform", "range"])
def test_newer_protocol(
    reference: KafkaClient, join: Join, remote_assignor: str, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(partitions=len(PARTITIONS))
    first = join(group, topic, remote_assignor=remote_assignor)
    _await_assigned(first, PARTITIONS)
    second = join(group, topic, remote_assignor=remote_assignor)
    kept, moved = _await_shared(first, second)
    if remote_assignor == "range":
        assert sorted([kept, moved], key=min) == [{0, 1}, {2, 3}]
    _assert_kept(first, kept)
    _fill(reference, topic, PARTITIONS, 1)
    _await_received(second, _offsets(sorted(moved), range(1)))
    second.close()
    _await_assigned(first, PARTITIONS)


@pytest.mark.feature("group.protocol=consumer, go on from the commit")
def test_newer_protocol_goes_on_from_the_commit(
    reference: KafkaClient, join: Join, new_topic: NewTopic, group: str
) -> None:
    topic = new_topic(partitions=2)
    _fill(reference, topic, (0, 1), 3)
    first = join(group, topic, remote_assignor="uniform")
    _await_received(first, _offsets((0, 1), range(3)))
    first.commit()
    assert reference.committed(group, topic) == {0: 3, 1: 3}
    first.close()
    _fill(reference, topic, (0, 1), 2)
    _await_received(join(group, topic, remote_assignor="uniform"), _offsets((0, 1), range(3, 5)))


@pytest.mark.feature("group.protocol=consumer, rolling upgrade and back")
def test_rolling_upgrade_and_back(reference: KafkaClient, join: Join, new_topic: NewTopic, group: str) -> None:
    """A member of the other protocol joins, and the one that was there leaves."""
    topic = new_topic(partitions=len(PARTITIONS))
    _fill(reference, topic, PARTITIONS, 1)
    member = join(group, topic)
    _await_received(member, _offsets(PARTITIONS, range(1)))
    for number, remote_assignor in enumerate(("uniform", None), 1):
        member.commit()
        successor = join(group, topic, remote_assignor=remote_assignor)
        _await_shared(member, successor)
        member.close()
        _await_assigned(successor, PARTITIONS)
        _fill(reference, topic, PARTITIONS, 1)
        _await_received(successor, _offsets(PARTITIONS, range(number, number + 1)))
        member = successor

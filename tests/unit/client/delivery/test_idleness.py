"""When a run with `stop_when_idle_s` ends: never without an assignment, and never while records may be left."""

from __future__ import annotations

import logging

import pytest

from penstock.client.assignment import Assignment
from penstock.client.delivery.idleness import Idleness
from penstock.core.errors import BrokerUnreachable, NoAssignment, UnknownTopic


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Member:
    """What `Idleness` asks of a consumer."""

    group_id = "billing"
    problem: Exception | None = None
    api_timeout_s = 60.0
    rebalance_timeout_s = 300.0

    def __init__(self, *, settled: bool = False, joined: bool = True, caught_up: bool = True) -> None:
        self.is_settled, self.is_joined, self.is_caught_up = settled, joined, caught_up

    def settled(self) -> bool:
        return self.is_settled

    def has_joined(self) -> bool:
        return self.is_joined

    def caught_up(self) -> bool:
        return self.is_caught_up

    def require_topics(self) -> None:
        if self.problem is not None:
            raise self.problem


@pytest.fixture
def clock() -> Clock:
    return Clock()


def idleness(member: Member, limit_s: float | None, clock: Clock) -> Idleness:
    return Idleness(member, limit_s, clock=clock)  # type: ignore[arg-type]


def ends_within(idle: Idleness, clock: Clock, seconds: int) -> bool:
    for _ in range(seconds):
        if idle.is_enough():
            return True
        clock.now += 1
    return False


def test_a_dead_members_session_is_waited_for(clock: Clock) -> None:
    member = Member()
    idle = idleness(member, 3, clock)
    assert not ends_within(idle, clock, 120), "longer than any usual session"
    member.is_settled = True
    assert not ends_within(idle, clock, 2), "idleness begins with the assignment"
    assert ends_within(idle, clock, 3)


def test_a_run_without_an_assignment_raises_in_the_end(clock: Clock) -> None:
    idle = idleness(Member(), 3, clock)
    with pytest.raises(NoAssignment, match=r"group 'billing' assigned no partitions within 310 s; records may be left"):
        ends_within(idle, clock, 1000)


def test_a_coordinator_that_does_not_answer_is_not_success(clock: Clock) -> None:
    idle = idleness(Member(joined=False), 3, clock)
    with pytest.raises(BrokerUnreachable, match="no coordinator answered within 60 s"):
        ends_within(idle, clock, 1000)


def test_a_topic_that_does_not_exist_is_said_at_once(clock: Clock) -> None:
    member = Member(joined=False)
    member.problem = UnknownTopic("topic 'orderz' does not exist")
    with pytest.raises(UnknownTopic):
        ends_within(idleness(member, 3, clock), clock, 5)
    member.problem = BrokerUnreachable("no broker")
    assert not ends_within(idleness(member, 3, clock), clock, 30), "the broker may still come"


def test_a_rebalance_takes_the_assignment_away_until_it_ends(clock: Clock) -> None:
    member = Member(settled=True)
    idle = idleness(member, 3, clock)
    idle.records_arrived()
    member.is_settled = False
    assert not ends_within(idle, clock, 60)


def test_silence_is_not_the_end_of_the_log(clock: Clock) -> None:
    member = Member(settled=True, caught_up=False)
    idle = idleness(member, 3, clock)
    assert not ends_within(idle, clock, 60)
    member.is_caught_up = True
    assert ends_within(idle, clock, 10)


def test_without_a_limit_a_run_never_ends(clock: Clock) -> None:
    assert not ends_within(idleness(Member(settled=True), None, clock), clock, 1000)


def test_a_long_wait_is_announced_once(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    idle = idleness(Member(), 3, clock)
    with caplog.at_level(logging.WARNING, "penstock.delivery"):
        assert not ends_within(idle, clock, 60)
    assert [record.getMessage() for record in caplog.records] == [
        "waiting for group 'billing' to assign partitions; a dead member keeps its own until its session ends"
    ]


class Partition:
    topic, partition = "t", 0


@pytest.mark.parametrize(("cooperative", "settled"), [(False, False), (True, True)])
def test_an_eager_rebalance_revokes_everything(cooperative: bool, settled: bool) -> None:
    """Under the cooperative protocol a consumer keeps reading what it was left."""
    assignment = Assignment(cooperative=cooperative)
    assignment.assigned(None, [Partition()])
    assert assignment.settled
    assignment.revoked(None, [Partition()])
    assert assignment.settled is settled
    assignment.lost(None, [Partition()])
    assert not assignment.settled

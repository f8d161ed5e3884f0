"""Consumer groups (KIP-848) under failing members, changing topics, lost responses and restarts of the broker."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.coordinator.consumer_group_changes import MemberState
from penstock.coordinator.consumer_group_messages import ConsumerGroupSettings
from penstock.coordinator.consumer_group_state import GroupPhase
from penstock.coordinator.topic_partitions import Topic
from penstock.core.ids import TopicIdPartition
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.unit.coordinator.consumer_group_harness import (
    SESSION_MS,
    GroupOnALog,
    SimulatedMember,
    topic_id,
)

MEMBERS_MAX = 6
REBALANCE_MS = 8_000
NAMES = ("a", "b", "c")
subscriptions = st.lists(st.sampled_from(NAMES), unique=True).map(tuple)
# The same subscription is what most groups have, and what promises the closest balance.
usual_subscriptions = st.just(NAMES) | subscriptions
which = st.integers(0, MEMBERS_MAX - 1)


class GroupUnderStress(RuleBasedStateMachine):
    """Members follow the protocol, slowly and with losses; the group must keep its promises to all of them."""

    broker: GroupOnALog

    @initialize(assignor=st.sampled_from(["uniform", "range"]), partition_count=st.integers(0, 7))
    def begin(self, assignor: str, partition_count: int) -> None:
        group_settings = ConsumerGroupSettings(session_timeout_ms=SESSION_MS, assignors=(assignor,))
        self.assignor = assignor
        self.broker = GroupOnALog({"a": Topic(topic_id("a"), "a", partition_count)}, group_settings)
        self.members: list[SimulatedMember] = []
        self.absent: list[SimulatedMember] = []
        self.named = 0
        self.incarnation = 0
        self.lost_answers: Counter[str] = Counter()
        self.silent_since_ms: dict[str, int] = {}
        self.asked_to_revoke_ms: dict[str, int] = {}

    def pick(self, number: int) -> SimulatedMember:
        return self.members[number % len(self.members)]

    def new_id(self) -> str:
        self.named += 1
        return f"member-{self.named:04}"

    def beat(self, member: SimulatedMember, *, answer_is_lost: bool = False) -> None:
        """A removed member must be refused, and rejoins without partitions."""
        was_removed = member.epoch > 0 and member.member_id not in self.broker.member_ids
        before = self.broker.group.state.current(member.member_id).state
        refused_with: int | None = None
        try:
            member.heartbeat(answer_is_lost=answer_is_lost)
        except BrokerError as error:
            refused_with = error.code
        if was_removed:
            assert refused_with == ErrorCode.UNKNOWN_MEMBER_ID
        elif self.lost_answers[member.member_id] < 2:
            assert refused_with is None
        else:
            # It may be two epochs behind, which fences it.
            assert refused_with in (None, ErrorCode.FENCED_MEMBER_EPOCH)
        self.lost_answers[member.member_id] += 1 if answer_is_lost else -self.lost_answers[member.member_id]
        if refused_with is not None:
            return
        self.silent_since_ms[member.member_id] = self.broker.now_ms
        state = self.broker.group.state.current(member.member_id).state
        if state is not MemberState.UNREVOKED_PARTITIONS:
            self.asked_to_revoke_ms.pop(member.member_id, None)
        elif before is not state:
            self.asked_to_revoke_ms[member.member_id] = self.broker.now_ms
        assert member.known_epochs == sorted(member.known_epochs)

    @precondition(lambda self: len(self.members) < MEMBERS_MAX)
    @rule(topic_names=usual_subscriptions, static=st.booleans())
    def join(self, topic_names: tuple[str, ...], static: bool) -> None:
        member_id = self.new_id()
        instance_id = f"instance of {member_id}" if static else None
        member = SimulatedMember(self.broker, member_id, topic_names, instance_id, rebalance_timeout_ms=REBALANCE_MS)
        self.members.append(member)
        self.beat(member)

    @precondition(lambda self: self.members)
    @rule(number=which, answer_is_lost=st.booleans())
    def heartbeat(self, number: int, answer_is_lost: bool) -> None:
        self.beat(self.pick(number), answer_is_lost=answer_is_lost)

    @precondition(lambda self: self.members)
    @rule(obediently=st.booleans())
    def all_members_heartbeat(self, obediently: bool) -> None:
        for member in self.members:
            self.beat(member)
            if obediently:
                member.give_up_the_rest()

    @precondition(lambda self: self.members)
    @rule(number=which)
    def give_up_the_rest(self, number: int) -> None:
        self.pick(number).give_up_the_rest()

    @precondition(lambda self: self.members)
    @rule(number=which, topic_names=subscriptions)
    def subscribe(self, number: int, topic_names: tuple[str, ...]) -> None:
        member = self.pick(number)
        member.subscribe(*topic_names)
        self.beat(member)

    @precondition(lambda self: self.members)
    @rule(number=which)
    def restart_a_member(self, number: int) -> None:
        """The same member id joins from the start, owning nothing."""
        member = self.pick(number)
        member.drop_everything()
        self.beat(member)

    @precondition(lambda self: self.members)
    @rule(number=which, epoch=st.integers(1, 60), owns_nothing=st.booleans())
    def a_zombie_speaks(self, number: int, epoch: int, owns_nothing: bool) -> None:
        """Under an epoch that is neither the member's nor the one before, or of one that owns too much."""
        member = self.pick(number)
        current = self.broker.group.state.current(member.member_id)
        if member.member_id not in self.broker.member_ids or epoch == current.member_epoch:
            return
        owned = frozenset() if owns_nothing else frozenset([TopicIdPartition(topic_id("elsewhere"), 0)])
        if epoch == current.previous_member_epoch and owns_nothing:
            return
        described = self.broker.group.describe()
        with pytest.raises(BrokerError) as refusal:
            self.broker.send(replace(member.request(), member_epoch=epoch, owned_partitions=owned))
        assert refusal.value.code == ErrorCode.FENCED_MEMBER_EPOCH
        assert self.broker.group.describe() == described

    @precondition(lambda self: self.members)
    @rule(number=which)
    def leave(self, number: int) -> None:
        member = self.pick(number)
        if member.member_id in self.broker.member_ids:
            assert member.leave().member_epoch == -1
            self.forget(member)
        self.members.remove(member)

    @precondition(lambda self: any(member.instance_id for member in self.members))
    @rule(number=which)
    def leave_for_a_while(self, number: int) -> None:
        static = [member for member in self.members if member.instance_id]
        member = static[number % len(static)]
        if member.member_id in self.broker.member_ids:
            assert member.leave(epoch=-2).member_epoch == -2
            self.asked_to_revoke_ms.pop(member.member_id, None)
            self.members.remove(member)
            self.absent.append(member)

    @precondition(lambda self: self.absent)
    @rule(number=which)
    def come_back(self, number: int) -> None:
        """Under a new member id, as a process that was started again."""
        earlier = self.absent.pop(number % len(self.absent))
        self.forget(earlier)
        successor = replace(earlier, member_id=self.new_id())
        successor.drop_everything()
        self.members.append(successor)
        self.beat(successor)

    @rule(milliseconds=st.integers(0, 20_000) | st.just(SESSION_MS))
    def time_passes(self, milliseconds: int) -> None:
        """Those who are removed had been silent for a session, or slow to revoke for a rebalance timeout; no other."""
        before = self.broker.member_ids
        self.broker.advance(milliseconds)
        now_ms = self.broker.now_ms
        overdue = {name for name in before if now_ms - self.silent_since_ms[name] >= SESSION_MS}
        overdue |= {name for name in before if now_ms - self.asked_to_revoke_ms.get(name, now_ms) >= REBALANCE_MS}
        assert before - self.broker.member_ids == overdue
        for name in overdue:
            del self.silent_since_ms[name]
            self.asked_to_revoke_ms.pop(name, None)

    @rule(name=st.sampled_from(NAMES), partition_count=st.integers(0, 9))
    def create_or_grow_topic(self, name: str, partition_count: int) -> None:
        existing = self.broker.catalogue.get(name)
        self.incarnation += 1
        created = existing or Topic(topic_id(name, self.incarnation), name, 0)
        grown = Topic(created.topic_id, name, max(created.partition_count, partition_count))
        self.broker.change_topics({**self.broker.catalogue, name: grown})

    @rule(name=st.sampled_from(NAMES))
    def delete_topic(self, name: str) -> None:
        self.broker.change_topics({other: topic for other, topic in self.broker.catalogue.items() if other != name})

    @rule(seed=st.integers(0, 100))
    def restart_the_broker(self, seed: int) -> None:
        """The restored group equals the original; the timeouts of members restart."""
        described = self.broker.group.describe()
        owners = dict(self.broker.group.state.owners)
        self.broker.restart(seed)
        assert self.broker.group.describe() == described
        assert self.broker.group.state.owners == owners
        self.silent_since_ms = dict.fromkeys(self.broker.member_ids, self.broker.now_ms)
        self.asked_to_revoke_ms = dict.fromkeys(self.asked_to_revoke_ms, self.broker.now_ms)

    def forget(self, member: SimulatedMember) -> None:
        self.silent_since_ms.pop(member.member_id, None)
        self.asked_to_revoke_ms.pop(member.member_id, None)

    @invariant()
    def no_partition_is_owned_twice(self) -> None:
        """As members see it: what they were told and have not given up. Whom the group removed is on its own."""
        known = self.broker.member_ids
        owners = Counter(
            partition for member in self.members if member.member_id in known for partition in member.owned
        )
        assert all(count == 1 for count in owners.values()), owners

    @invariant()
    def a_deadline_is_always_pending(self) -> None:
        deadline_ms = self.broker.group.next_deadline_ms()
        assert (deadline_ms is None) is self.broker.group.is_empty
        if deadline_ms is not None:
            assert self.broker.now_ms < deadline_ms <= min(self.silent_since_ms.values()) + SESSION_MS

    @precondition(lambda self: self.members)
    @rule()
    def settle(self) -> None:
        """After absent members have expired and all others have reconciled, every partition has an owner."""
        while self.absent:
            self.forget(absent := self.absent.pop())
            if absent.member_id in self.broker.member_ids:
                absent.leave()
        for _ in range(6):
            for member in self.members:
                self.beat(member)
                member.give_up_the_rest()
        assert self.broker.group.phase is GroupPhase.STABLE
        self.everything_is_owned_once_by_a_subscriber()
        if self.assignor == "uniform" and len({frozenset(member.topic_names) for member in self.members}) == 1:
            loads = [len(member.owned) for member in self.members]
            assert max(loads) - min(loads) <= 1

    def everything_is_owned_once_by_a_subscriber(self) -> None:
        subscribed = {name for member in self.members for name in member.topic_names}
        existing = {
            TopicIdPartition(topic.topic_id, index)
            for name, topic in self.broker.catalogue.items()
            if name in subscribed
            for index in range(topic.partition_count)
        }
        owned = [partition for member in self.members for partition in member.owned]
        assert sorted(owned) == sorted(existing)
        for member in self.members:
            wanted = {self.broker.catalogue[n].topic_id for n in member.topic_names if n in self.broker.catalogue}
            assert {partition.topic_id for partition in member.owned} <= wanted

    def teardown(self) -> None:
        if getattr(self, "members", None):
            self.settle()


TestGroupUnderStress = GroupUnderStress.TestCase
TestGroupUnderStress.settings = settings(
    max_examples=250, stateful_step_count=60, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)

"""A classic group with consumers that join, leave, stop, return twice, delay and repeat requests.

The consumers join, sync and heartbeat like Kafka's, and the leader assigns the partitions. The harness checks that
every request is answered exactly once and that no deadline is missed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.coordinator.classic_group import ClassicGroupSettings
from penstock.coordinator.classic_messages import (
    ClassicGroupState,
    GroupChanged,
    JoinedMember,
    JoinReply,
    JoinResult,
    LeavingMember,
    MemberProtocol,
    SyncReply,
    SyncResult,
)
from penstock.coordinator.classic_rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.unit.coordinator.classic_harness import Harness

PARTITIONS = range(7)
CONSUMERS_MAX = 6
INSTANCES = ("pod-0", "pod-1", "pod-2")
PERIOD_MS = 500
SESSIONS_MS = (6_000, 10_000, 45_000)
REBALANCES_MS = (2_000, 20_000, 60_000)
LONGER_THAN_ANYTHING_MS = 2 * NEW_MEMBER_JOIN_TIMEOUT_MS

RANGE_FIRST = ("range", "sticky")
STICKY_FIRST = ("sticky", "range")


@dataclass(eq=False)
class Consumer:
    instance_id: str | None
    version: int
    session_timeout_ms: int
    rebalance_timeout_ms: int
    preference: tuple[str, ...]
    topics: int = 0
    member_id: str = ""
    generation_id: int = -1
    protocol_name: str | None = None
    led: tuple[JoinedMember, ...] = ()
    """The members that it leads; empty unless it was elected."""
    has_joined: bool = False
    assignment: bytes | None = None
    """None until it has synced."""
    waits_for: int | None = None
    is_running: bool = True
    was_full: bool = False

    @property
    def protocols(self) -> list[MemberProtocol]:
        return [MemberProtocol(name, f"{name} {self.topics}".encode()) for name in self.preference]

    def start_over(self) -> None:
        self.has_joined = False
        self.assignment = None

    def react_to(self, error: ErrorCode) -> None:
        self.start_over()
        if error in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.GROUP_MAX_SIZE_REACHED}:
            self.member_id = ""
        self.was_full = error is ErrorCode.GROUP_MAX_SIZE_REACHED
        self.is_running = error is not ErrorCode.FENCED_INSTANCE_ID

    def joined(self, result: JoinResult) -> None:
        if result.error is ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id, self.was_full = result.member_id, False
        elif result.error is not ErrorCode.NONE:
            self.react_to(result.error)
        else:
            self.member_id = result.member_id
            self.generation_id = result.generation_id
            self.protocol_name = result.protocol_name
            self.led = () if result.skip_assignment else result.members
            assert bool(result.members) == (result.leader_id == result.member_id)
            self.has_joined, self.was_full = True, False

    def synced(self, result: SyncResult) -> None:
        if result.error is ErrorCode.NONE:
            self.assignment = result.assignment
        else:
            self.react_to(result.error)


consumers = st.builds(
    Consumer,
    instance_id=st.none() | st.sampled_from(INSTANCES),
    version=st.sampled_from((3, 8, 9)),
    session_timeout_ms=st.sampled_from(SESSIONS_MS),
    rebalance_timeout_ms=st.sampled_from(REBALANCES_MS),
    preference=st.sampled_from((RANGE_FIRST, STICKY_FIRST)),
)


def share_out(members: tuple[JoinedMember, ...]) -> dict[str, bytes]:
    """In turn, so that each partition has one owner."""
    member_ids = sorted(member.member_id for member in members)
    return {member_id: bytes(PARTITIONS[position :: len(member_ids)]) for position, member_id in enumerate(member_ids)}


@dataclass
class Ledger:
    """What the answers said so far, to hold later ones against it."""

    generation_id: int = 0
    compositions: dict[int, frozenset[str]] = field(default_factory=dict)
    signs_of_life: dict[str, int] = field(default_factory=dict)
    waiting: dict[int, tuple[Consumer, str]] = field(default_factory=dict)
    read: int = 0


class GroupOfConsumers(RuleBasedStateMachine):
    harness: Harness

    @initialize(
        delay_ms=st.sampled_from((0, 3_000)),
        size_max=st.sampled_from((3, 100)),
        first=st.lists(consumers, max_size=CONSUMERS_MAX),
    )
    def begin(self, delay_ms: int, size_max: int, first: list[Consumer]) -> None:
        self.harness = Harness(ClassicGroupSettings(initial_rebalance_delay_ms=delay_ms, size_max=size_max))
        self.consumers: list[Consumer] = []
        self.ledger = Ledger()
        for consumer in first:
            self.start(consumer)

    # What consumers do.

    @precondition(lambda self: len(self.running()) < CONSUMERS_MAX)
    @rule(consumer=consumers)
    def start(self, consumer: Consumer) -> None:
        """Perhaps under an instance id that is in use: a restart, or a twin by mistake."""
        self.consumers.append(consumer)
        self.act(consumer)

    @rule(periods=st.integers(1, 30))
    def all_live_on(self, periods: int) -> None:
        for _ in range(periods):
            self.live_on()

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def go_on(self, data: st.DataObject) -> None:
        self.act(self.any_running(data))

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def repeat_a_request(self, data: st.DataObject) -> None:
        """It gave up on the answer, and asks again."""
        consumer = self.any_running(data)
        consumer.waits_for = None
        self.act(consumer)

    @precondition(lambda self: any(consumer.instance_id for consumer in self.running()))
    @rule(data=st.data(), version=st.sampled_from((8, 9)))
    def restart_an_instance(self, data: st.DataObject, version: int) -> None:
        former = data.draw(st.sampled_from([consumer for consumer in self.running() if consumer.instance_id]))
        former.is_running = False
        self.start(
            Consumer(
                former.instance_id,
                version,
                former.session_timeout_ms,
                former.rebalance_timeout_ms,
                former.preference,
            )
        )

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def read_other_topics(self, data: st.DataObject) -> None:
        consumer = self.any_running(data)
        consumer.topics += 1
        consumer.start_over()

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def fall_silent(self, data: st.DataObject) -> None:
        self.any_running(data).is_running = False

    @precondition(lambda self: self.running())
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        consumer = self.any_running(data)
        consumer.is_running = False
        if consumer.member_id:
            self.harness.leave(LeavingMember(consumer.member_id, consumer.instance_id))
            self.read_answers()

    @rule(instance_id=st.sampled_from(INSTANCES))
    def remove_an_instance(self, instance_id: str) -> None:
        self.harness.leave(LeavingMember("", instance_id))
        self.read_answers()

    @precondition(lambda self: self.harness.group.generation_id > 0 and self.consumers)
    @rule(data=st.data(), age=st.integers(1, 3))
    def speak_of_an_old_generation(self, data: st.DataObject, age: int) -> None:
        consumer = data.draw(st.sampled_from(self.consumers))
        generation_id = max(0, self.harness.group.generation_id - age)
        fences = {ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}
        assert self.harness.heartbeat(consumer.member_id, generation_id, consumer.instance_id) in fences
        sync = self.harness.sync(consumer.member_id, generation_id, instance_id=consumer.instance_id)
        assert self.harness.synced(sync).error in fences
        with pytest.raises(BrokerError) as refused:
            self.harness.group.check_offset_commit(
                consumer.member_id,
                consumer.instance_id,
                generation_id,
                transactional=False,
                now_ms=self.harness.now_ms,
            )
        assert refused.value.code in fences

    # What happens to all of them.

    @rule(elapsed_ms=st.sampled_from((1, 1_000, 3_000, 10_000, 60_000, 300_000)))
    def pass_time(self, elapsed_ms: int) -> None:
        self.harness.advance(elapsed_ms)
        self.read_answers()

    @rule(elapsed_ms=st.integers(0, 100_000))
    def jump(self, elapsed_ms: int) -> None:
        """The broker was suspended: many deadlines are long over at the next tick."""
        self.harness.now_ms += elapsed_ms
        self.harness.tick()
        self.read_answers()

    @rule()
    def restart_the_broker(self) -> None:
        """Only durable state is left, and all pending requests are answered."""
        self.harness.close(ErrorCode.NOT_COORDINATOR)
        self.read_answers()
        assert not self.ledger.waiting
        changes = self.harness.changes
        if changes:
            self.harness.restart(changes[-1])
        else:
            self.harness.start_again()
        self.ledger = Ledger(
            generation_id=self.harness.group.generation_id,
            signs_of_life=dict.fromkeys(self.member_ids(), self.harness.now_ms),
            read=len(self.harness.history),
        )

    @rule()
    def let_it_settle(self) -> None:
        """Left to themselves, consumers that are well always end up with all partitions shared out among them."""
        self.settle()
        working = [consumer for consumer in self.running() if not consumer.was_full]
        if working:
            owned = sorted(partition for consumer in working for partition in consumer.assignment or b"")
            assert owned == list(PARTITIONS)
            assert len({consumer.generation_id for consumer in working}) == 1

    def settle(self) -> None:
        deadline_ms = self.harness.now_ms + LONGER_THAN_ANYTHING_MS
        while not self.is_settled():
            assert self.harness.now_ms < deadline_ms, f"still {self.harness.group.describe()}"
            self.live_on()

    def live_on(self) -> None:
        for consumer in self.running():
            self.act(consumer)
        self.harness.advance(PERIOD_MS)
        self.read_answers()

    def is_settled(self) -> bool:
        working = [consumer for consumer in self.running() if not consumer.was_full]
        if any(consumer.assignment is None for consumer in working):
            return False
        if self.member_ids() != {consumer.member_id for consumer in working}:
            return False
        resting = ClassicGroupState.STABLE if working else ClassicGroupState.EMPTY
        is_up_to_date = all(consumer.generation_id == self.harness.group.generation_id for consumer in working)
        return self.harness.state() is resting and is_up_to_date

    def teardown(self) -> None:
        """All members stop: finally the group is empty, without deadlines or pending requests."""
        if not hasattr(self, "harness"):
            return
        self.harness.advance(LONGER_THAN_ANYTHING_MS)
        self.read_answers()
        assert not self.ledger.waiting
        assert self.harness.is_idle()
        assert self.harness.group.next_deadline_ms() is None

    # What must always hold.

    @invariant()
    def generations_only_grow(self) -> None:
        generation_id = self.harness.group.generation_id
        assert generation_id >= self.ledger.generation_id
        self.ledger.generation_id = generation_id

    @invariant()
    def a_stable_group_owns_every_partition_once(self) -> None:
        if self.harness.state() is ClassicGroupState.STABLE:
            members = self.harness.group.describe().members
            assert sorted(partition for member in members for partition in member.assignment) == list(PARTITIONS)

    @invariant()
    def no_member_outlives_its_session(self) -> None:
        waiting = {member_id for _, member_id in self.ledger.waiting.values()}
        for member in self.harness.group.describe().members:
            silence_ms = self.harness.now_ms - self.ledger.signs_of_life.get(member.member_id, self.harness.now_ms)
            assert silence_ms < member.session_timeout_ms or member.member_id in waiting

    @invariant()
    def a_group_without_members_is_empty(self) -> None:
        if self.harness.state() is ClassicGroupState.EMPTY:
            assert not self.member_ids()
        elif self.harness.state() is not ClassicGroupState.PREPARING_REBALANCE:
            assert self.member_ids()

    # How a consumer lives.

    def act(self, consumer: Consumer) -> None:
        """All that it can do until it has to wait."""
        while consumer.is_running and consumer.waits_for is None:
            if not consumer.has_joined:
                self.send_join(consumer)
                if consumer.was_full:
                    return
            elif consumer.assignment is None:
                self.send_sync(consumer)
            else:
                error = self.harness.heartbeat(consumer.member_id, consumer.generation_id, consumer.instance_id)
                if error in {ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS}:
                    self.ledger.signs_of_life[consumer.member_id] = self.harness.now_ms
                if error is ErrorCode.NONE:
                    return
                consumer.react_to(error)

    def send_join(self, consumer: Consumer) -> None:
        token = self.harness.join(
            consumer.member_id,
            consumer.instance_id,
            version=consumer.version,
            session_timeout_ms=consumer.session_timeout_ms,
            rebalance_timeout_ms=consumer.rebalance_timeout_ms,
            protocols=consumer.protocols,
        )
        self.wait(consumer, token)

    def send_sync(self, consumer: Consumer) -> None:
        token = self.harness.sync(
            consumer.member_id,
            consumer.generation_id,
            share_out(consumer.led) if consumer.led else None,
            instance_id=consumer.instance_id,
            protocol_name=consumer.protocol_name,
        )
        self.wait(consumer, token)

    def wait(self, consumer: Consumer, token: int) -> None:
        consumer.waits_for = token
        # The group knows its member's id before the member does, if that joins without one.
        member_id = consumer.member_id or next(
            (m.member_id for m in reversed(self.harness.group.describe().members)), ""
        )
        self.ledger.waiting[token] = (consumer, member_id)
        self.read_answers()

    def read_answers(self) -> None:
        """In the order in which they were given; what was durable by then is all that they may speak of."""
        ledger = self.ledger
        durable: dict[str, bytes] = {}
        for change in self.harness.changes_until(ledger.read)[-1:]:
            durable = {member.member_id: member.assignment for member in change.members}
        for effect in self.harness.history[ledger.read :]:
            ledger.read += 1
            if isinstance(effect, GroupChanged):
                durable = {member.member_id: member.assignment for member in effect.snapshot.members}
            elif isinstance(effect, JoinReply):
                self.check_join(effect.result)
                self.hear(effect.token, effect.result)
            elif isinstance(effect, SyncReply) and effect.token in ledger.waiting:
                assert isinstance(effect.token, int)
                _, member_id = ledger.waiting[effect.token]
                ledger.signs_of_life[member_id] = self.harness.now_ms
                if effect.result.error is ErrorCode.NONE:
                    assert effect.result.assignment == durable[member_id]
                self.hear(effect.token, effect.result)

    def check_join(self, result: JoinResult) -> None:
        """A generation has one composition, in every response about it."""
        if result.error is not ErrorCode.NONE:
            return
        if result.generation_id not in self.ledger.compositions:
            assert result.generation_id >= max(self.ledger.compositions, default=0)
            self.ledger.compositions[result.generation_id] = frozenset()
            for member_id in self.member_ids():
                self.ledger.signs_of_life[member_id] = self.harness.now_ms
        if result.members:
            composition = frozenset(member.instance_id or member.member_id for member in result.members)
            known = self.ledger.compositions[result.generation_id]
            assert not known or known == composition
            self.ledger.compositions[result.generation_id] = composition
        self.ledger.signs_of_life[result.member_id] = self.harness.now_ms

    def hear(self, token: object, result: JoinResult | SyncResult) -> None:
        assert isinstance(token, int)
        consumer, _ = self.ledger.waiting.pop(token)
        if consumer.waits_for != token:
            return
        consumer.waits_for = None
        if isinstance(result, JoinResult):
            consumer.joined(result)
        else:
            consumer.synced(result)

    def running(self) -> list[Consumer]:
        return [consumer for consumer in self.consumers if consumer.is_running]

    def any_running(self, data: st.DataObject) -> Consumer:
        return data.draw(st.sampled_from(self.running()))

    def member_ids(self) -> set[str]:
        return {member.member_id for member in self.harness.group.describe().members}


TestGroupOfConsumers = GroupOfConsumers.TestCase
TestGroupOfConsumers.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)

"""Classic members, eager and cooperative, among members of the newer protocol: no partition has two readers."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass

import pytest

from penstock.coordinator import classic_members
from penstock.coordinator.classic_messages import JoinRequest, LeavingMember, MemberProtocol, SyncRequest
from penstock.coordinator.consumer_protocol import read_assignment
from penstock.core.ids import TopicIdPartition
from penstock.protocol.codec import writer
from penstock.protocol.definitions.consumer_protocol_subscription import ConsumerProtocolSubscription, TopicPartition
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.unit.coordinator.consumer_group_harness import GROUP_ID, GroupOnALog, SimulatedMember, partitions, topics

SESSION_MS = 10_000
REBALANCE_MS = 30_000
JOIN_VERSION = 9
PARTITIONS = 6


@dataclass(eq=False)
class ClassicConsumer:
    """Follows the group as a client does. `owned` is what it reads."""

    broker: GroupOnALog
    member_id: str
    cooperative: bool
    generation_id: int = -1
    owned: frozenset[TopicIdPartition] = frozenset()
    must_join: bool = True
    must_sync: bool = False

    def step(self) -> None:
        """Its next request."""
        try:
            if self.must_join:
                self._join()
            elif self.must_sync:
                self._sync()
            else:
                classic_members.heartbeat(
                    self.broker.group, self.member_id, None, self.generation_id, self.broker.now_ms
                )
        except BrokerError as error:
            if error.code not in (
                ErrorCode.REBALANCE_IN_PROGRESS,
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.ILLEGAL_GENERATION,
            ):
                raise
            if error.code is not ErrorCode.REBALANCE_IN_PROGRESS:
                self.owned = frozenset()
            self.must_join, self.must_sync = True, False

    def _join(self) -> None:
        if not self.cooperative:
            self.owned = frozenset()
        version = 1 if self.cooperative else 0
        subscription = ConsumerProtocolSubscription(
            topics=["orders"],
            owned_partitions=[TopicPartition(topic="orders", partitions=[index for _, index in sorted(self.owned)])],
        )
        metadata = bytearray(version.to_bytes(2, "big"))
        writer(ConsumerProtocolSubscription, version)(metadata, subscription)
        request = JoinRequest(
            version=JOIN_VERSION,
            member_id=self.member_id,
            instance_id=None,
            client_id="client",
            client_host="/host",
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            protocol_type="consumer",
            protocols=(MemberProtocol("range", bytes(metadata)),),
        )
        joined, changes = classic_members.join(self.broker.group, request, lambda: "uuid", self.broker.now_ms)
        self.broker.write(changes)
        self.generation_id = joined.generation_id
        self.must_join, self.must_sync = False, True

    def _sync(self) -> None:
        request = SyncRequest(5, self.member_id, None, self.generation_id, "consumer", "range")
        answer = classic_members.sync(self.broker.group, request, self.broker.now_ms)
        topic_ids = {topic.name: topic.topic_id for topic in self.broker.catalogue.values()}
        assigned = read_assignment(answer.assignment, topic_ids)
        # A cooperative member gives partitions up, and joins again to say so.
        self.must_join = self.cooperative and not self.owned <= assigned
        self.owned, self.must_sync = assigned, False

    def leave(self) -> None:
        self.owned = frozenset()
        _, changes = classic_members.leave(self.broker.group, [LeavingMember(self.member_id)])
        self.broker.write(changes)


Consumer = ClassicConsumer | SimulatedMember


def step(consumer: Consumer) -> None:
    if isinstance(consumer, ClassicConsumer):
        consumer.step()
        return
    try:
        consumer.heartbeat()
    except BrokerError as error:
        if error.code not in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            raise
    consumer.give_up_the_rest()


@pytest.mark.parametrize("seed", range(40))
def test_no_partition_is_read_by_two_members_and_all_are_read_in_the_end(seed: int) -> None:
    chance = random.Random(seed)
    broker = GroupOnALog(topics(orders=PARTITIONS))
    numbers = itertools.count()
    consumers: list[Consumer] = [SimulatedMember(broker, "first")]
    for _ in range(150):
        kind = chance.random()
        if kind < 0.06 and len(consumers) < 6:
            name = f"member-{next(numbers)}"
            if chance.random() < 0.6:
                consumers.append(ClassicConsumer(broker, name, cooperative=chance.random() < 0.5))
            else:
                consumers.append(SimulatedMember(broker, name))
        elif kind < 0.1 and len(consumers) > 1:
            leaving = consumers.pop(chance.randrange(1, len(consumers)))
            if leaving.member_id in broker.member_ids:
                leaving.leave()
        elif kind < 0.12:
            broker.restart(seed)
        else:
            step(chance.choice(consumers))
        broker.now_ms += chance.randrange(3)
        for one, other in itertools.combinations(consumers, 2):
            both = one.owned & other.owned
            assert not both, f"{one.member_id} and {other.member_id} read {both}"
    for _ in range(12):
        for consumer in consumers:
            for _ in range(2):
                step(consumer)
    assert frozenset().union(*(consumer.owned for consumer in consumers)) == partitions("orders", range(PARTITIONS))
    assert sum(len(consumer.owned) for consumer in consumers) == PARTITIONS
    assert broker.group.group_id == GROUP_ID

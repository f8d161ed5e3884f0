"""Brokers with logs under the decisions about leaders: no committed record is lost, whatever ends in which order.

A broker knows the cluster by the changes that were delivered to it, which may be old ones. Leaders append, followers
copy, leaders propose in-sync replicas and commit what all of them hold; brokers stop, die and lose what was not synced,
lose their leases, return; the controller looks when it gets to it. A record counts as committed when a leader's high
watermark passes it. It may be lost only when every replica that was relied upon has ended uncleanly since: those that
it was committed on, until enough others are in sync.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from penstock.core.ids import NO_LEADER, BrokerId, LeaderEpoch, PartitionIndex
from penstock.metadata.changes import (
    BrokerGone,
    BrokerImage,
    Change,
    PartitionChanged,
    PartitionImage,
    TopicConfigChanged,
    TopicCreated,
    TopicImage,
)
from penstock.metadata.controller import Controller, decide_candidacy
from penstock.metadata.elections import decide_elections
from penstock.metadata.image import ClusterImage
from penstock.metadata.in_sync import decide_in_sync, may_join
from penstock.metadata.partition_state import Election, ReplicationRules, effective_minimum, may_commit
from penstock.metadata.reassignment import decide_reassignment
from penstock.metadata.registration import decide_registration, decide_shutdown, may_stop
from penstock.protocol.error_codes import BrokerError
from tests.unit.metadata.clusters import INHERITED, ORDERS, ORDERS_ID

BROKERS = [BrokerId(number) for number in range(1, 5)]
some_broker = st.sampled_from(BROKERS)


@dataclass(frozen=True, slots=True)
class Record:
    """Followers tell records apart by offset and leader epoch. `number` tells whether they may: no two are equal."""

    offset: int
    leader_epoch: int
    number: int


@dataclass
class Replica:
    """A broker with its replica of the one partition. `seen` is what it knows of the cluster."""

    broker_id: BrokerId
    log: list[Record] = field(default_factory=list)
    synced: int = 0
    clean_shutdown_epoch: int | None = None
    incarnation: int = 0
    # Of the running process.
    is_up: bool = False
    is_fenced: bool = False
    epoch: int = 0
    seen: ClusterImage = field(default_factory=lambda: ClusterImage("cluster"))
    seen_changes: int = 0
    # Of a leader, in `leader_epoch`.
    leader_epoch: int = -1
    epoch_start: int = 0
    high_watermark: int = 0
    progress: dict[BrokerId, tuple[int, int]] = field(default_factory=dict)
    proposed: set[BrokerId] = field(default_factory=set)

    @property
    def partition(self) -> PartitionImage | None:
        topic = self.seen.topics.get(ORDERS)
        return None if topic is None else topic.partitions[0]

    @property
    def is_dead(self) -> bool:
        return not self.is_up and self.clean_shutdown_epoch is None

    @property
    def leads(self) -> bool:
        partition = self.partition
        return self.is_up and not self.is_fenced and partition is not None and partition.leader == self.broker_id

    def begin(self) -> None:
        """A role: what was known of followers belongs to an earlier epoch."""
        partition = self.partition
        if partition is None:
            return
        if partition.leader == self.broker_id and partition.leader_epoch != self.leader_epoch:
            self.leader_epoch, self.epoch_start = partition.leader_epoch, len(self.log)
            self.progress = {}
        if partition.leader != self.broker_id:
            self.leader_epoch = -1
        self.proposed &= set(partition.isr)
        if self.broker_id not in partition.replicas:
            self.log, self.synced, self.high_watermark = [], 0, 0


class LeaderElections(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.image = ClusterImage("cluster")
        self.committed_changes: list[Change] = []
        self.replicas = {broker_id: Replica(broker_id) for broker_id in BROKERS}
        self.controllers = {broker_id: Controller() for broker_id in BROKERS}
        self.record_count = 0
        self.leaders: dict[int, BrokerId] = {}
        self.last_leader = NO_LEADER
        # Committed records by offset, and the replicas that are relied upon to hold them.
        self.committed: dict[int, tuple[Record, set[BrokerId]]] = {}

    # The cluster's metadata

    def propose(self, decide: Callable[[ClusterImage], Sequence[Change]]) -> bool:
        """Commits what is decided on the newest image. Brokers learn of it when it is delivered."""
        try:
            changes = decide(self.image)
        except BrokerError:
            return False
        before = self.partition
        for change in changes:
            self.image.apply(change)
        self.committed_changes += changes
        self.check(before)
        return True

    @property
    def partition(self) -> PartitionImage | None:
        topic = self.image.topics.get(ORDERS)
        return None if topic is None else topic.partitions[0]

    def check(self, before: PartitionImage | None) -> None:
        partition = self.partition
        if partition is None:
            return
        rules = ReplicationRules.of(self.image.topics[ORDERS], INHERITED)
        joined = set(partition.isr) - set(before.isr if before else ())
        for record, holders in self.committed.values():
            for replica in joined:
                if not self.replicas[replica].is_dead and record in self.replicas[replica].log:
                    holders.add(replica)
            # A reassignment may end on replicas that died unnoticed, but never on none.
            assert not holders or partition.isr or partition.elr, f"{record} is given up"
            holders &= set(partition.replicas)
            if len(partition.isr) >= effective_minimum(partition, rules):
                holders &= set(partition.isr)
        if partition.leader == NO_LEADER:
            return
        self.last_leader = partition.leader
        assert self.leaders.setdefault(partition.leader_epoch, partition.leader) == partition.leader
        if not self.replicas[partition.leader].is_up:
            return  # it cannot act before it has registered again
        log = self.replicas[partition.leader].log
        for offset, (record, holders) in tuple(self.committed.items()):
            if offset >= len(log) or log[offset] != record:
                assert not holders, f"{record} is lost, although {holders} hold it"
                del self.committed[offset]

    def registered(self, replica: Replica) -> Callable[[ClusterImage], list[Change]]:
        def decide(image: ClusterImage) -> list[Change]:
            broker = BrokerImage(replica.broker_id, {}, incarnation=replica.incarnation.to_bytes(16, "big"))
            return decide_registration(image, broker, replica.clean_shutdown_epoch, INHERITED)

        return decide

    def deliver_all(self, replica: Replica) -> None:
        while replica.seen_changes < len(self.committed_changes):
            self.deliver_one(replica)

    def deliver_one(self, replica: Replica) -> None:
        replica.seen.apply(self.committed_changes[replica.seen_changes])
        replica.seen_changes += 1
        replica.begin()

    # What happens

    @initialize(replica_count=st.integers(1, 4), min_isr=st.integers(1, 3), dead=st.sampled_from([0, 0, 0, 1]))
    def start(self, replica_count: int, min_isr: int, dead: int) -> None:
        for replica in self.replicas.values():
            self.restart(replica.broker_id)
        if dead:
            # Dead and not noticed when the topic is created.
            self.kill(BROKERS[0], 1)
        placed = tuple(BROKERS[:replica_count])
        partition = PartitionImage(PartitionIndex(0), placed[0], LeaderEpoch(0), placed, placed)
        configs = {"min.insync.replicas": str(min_isr)}
        self.propose(lambda image: [TopicCreated(TopicImage(ORDERS, ORDERS_ID, (partition,), configs))])

    @rule(broker_id=some_broker)
    def deliver(self, broker_id: BrokerId) -> None:
        replica = self.replicas[broker_id]
        if replica.is_up and not replica.is_fenced and replica.seen_changes < len(self.committed_changes):
            self.deliver_one(replica)

    @rule()
    def deliver_everywhere(self) -> None:
        for replica in self.replicas.values():
            if replica.is_up and not replica.is_fenced:
                self.deliver_all(replica)

    @rule()
    def work(self) -> None:
        """All is well for a while."""
        self.control()
        self.deliver_everywhere()
        self.append(1)
        for _ in range(2):
            for broker_id in BROKERS:
                self.fetch(broker_id)
        self.expand()

    @rule(count=st.integers(1, 3))
    def append(self, count: int) -> None:
        """Everyone who believes to lead."""
        for replica in self.replicas.values():
            if replica.leads:
                end_offset = len(replica.log)
                for offset in range(end_offset, end_offset + count):
                    self.record_count += 1
                    replica.log.append(Record(offset, replica.leader_epoch, self.record_count))
                self.advance(replica)

    @rule(broker_id=some_broker)
    def sync(self, broker_id: BrokerId) -> None:
        replica = self.replicas[broker_id]
        replica.synced = len(replica.log)

    @rule(broker_id=some_broker)
    def fetch(self, broker_id: BrokerId) -> None:
        """A follower tells its end offset, and gets what is behind it; or truncates where its log diverges."""
        follower = self.replicas[broker_id]
        partition = follower.partition
        if not follower.is_up or partition is None or partition.leader in (NO_LEADER, broker_id):
            return
        leader = self.replicas[partition.leader]
        if broker_id not in partition.replicas or not leader.leads or leader.leader_epoch != partition.leader_epoch:
            return
        equal = 0
        for mine, theirs in zip(follower.log, leader.log, strict=False):
            if mine.leader_epoch != theirs.leader_epoch:
                break
            assert mine == theirs, "two records have one offset and one leader epoch"
            equal += 1
        if equal < len(follower.log):
            del follower.log[equal:]
            follower.synced = min(follower.synced, equal)
            return
        leader.progress[broker_id] = (len(follower.log), follower.epoch)
        self.advance(leader)
        follower.log += leader.log[equal : equal + 2]

    def advance(self, leader: Replica) -> None:
        partition = leader.partition
        assert partition is not None
        topic = leader.seen.topics[ORDERS]
        if not may_commit(partition, ReplicationRules.of(topic, INHERITED)):
            return
        in_sync = (set(partition.isr) | leader.proposed) - {leader.broker_id}
        ends = [leader.progress.get(follower, (0, 0))[0] for follower in in_sync]
        for record in leader.log[leader.high_watermark : min([len(leader.log), *ends])]:
            leader.high_watermark += 1
            kept = self.committed.get(record.offset)
            if kept is None or kept[0] != record:
                assert kept is None or not kept[1], f"{record} is committed over {kept}"
                holders = {leader.broker_id} | in_sync
                intact = {holder for holder in holders if record in self.replicas[holder].log}
                self.committed[record.offset] = (record, intact)

    @rule()
    def expand(self) -> None:
        for leader in self.replicas.values():
            for follower_id in tuple(leader.progress) if leader.leads else ():
                self.expand_by(leader, follower_id)

    def expand_by(self, leader: Replica, follower_id: BrokerId) -> None:
        partition = leader.partition
        assert partition is not None
        end, epoch = leader.progress[follower_id]
        if end < max(leader.high_watermark, leader.epoch_start) or not may_join(leader.seen, follower_id, epoch):
            return
        if follower_id in partition.isr or follower_id in leader.proposed:
            return
        # Counted from the moment of the proposal on: it may be committed long before the leader is told.
        leader.proposed.add(follower_id)
        if not self.change_in_sync(leader, partition, {follower_id: epoch}, set()):
            leader.proposed.discard(follower_id)

    @rule(follower_id=some_broker)
    def shrink(self, follower_id: BrokerId) -> None:
        for leader in self.replicas.values():
            if leader.leads and leader.partition is not None and follower_id != leader.broker_id:
                self.change_in_sync(leader, leader.partition, {}, {follower_id})

    def change_in_sync(
        self, leader: Replica, partition: PartitionImage, joining: dict[BrokerId, int], leaving: set[BrokerId]
    ) -> bool:
        return self.propose(
            lambda image: decide_in_sync(
                image,
                ORDERS_ID,
                PartitionIndex(0),
                leader=leader.broker_id,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                joining=joining,
                leaving=leaving,
                inherited=INHERITED,
            )
        )

    @rule(broker_id=some_broker, lost=st.integers(0, 5))
    def kill(self, broker_id: BrokerId, lost: int) -> None:
        replica = self.replicas[broker_id]
        if not replica.is_up:
            return
        replica.is_up = False
        replica.log = replica.log[: max(replica.synced, len(replica.log) - lost)]
        replica.synced = len(replica.log)
        replica.clean_shutdown_epoch = None
        for _, holders in self.committed.values():
            holders.discard(broker_id)

    @rule(broker_id=some_broker)
    def stop(self, broker_id: BrokerId) -> None:
        replica = self.replicas[broker_id]
        if not replica.is_up or replica.is_fenced:
            return
        self.propose(lambda image: decide_shutdown(image, broker_id, replica.epoch, INHERITED))
        replica.is_up = False
        replica.synced = len(replica.log)
        replica.clean_shutdown_epoch = replica.epoch
        self.propose(lambda image: [BrokerGone(broker_id, replica.epoch)])

    @rule(broker_id=some_broker)
    def begin_shutdown(self, broker_id: BrokerId) -> None:
        replica = self.replicas[broker_id]
        if replica.is_up and not replica.is_fenced:
            self.propose(lambda image: decide_shutdown(image, broker_id, replica.epoch, INHERITED))

    @rule(broker_id=some_broker)
    def lease_is_over(self, broker_id: BrokerId) -> None:
        """Of a dead process, or of one that was away: the broker fences itself before the store lets go of it."""
        replica = self.replicas[broker_id]
        if broker_id in self.image.brokers:
            replica.is_fenced = True
            self.propose(lambda image: [BrokerGone(broker_id, image.brokers[broker_id].epoch)])

    @rule(broker_id=some_broker)
    def restart(self, broker_id: BrokerId) -> None:
        """A new process, which revokes its old lease, or one that was away and registers again."""
        replica = self.replicas[broker_id]
        if replica.is_up and not replica.is_fenced:
            return
        if not replica.is_up:
            if broker_id in self.image.brokers:
                self.propose(lambda image: [BrokerGone(broker_id, image.brokers[broker_id].epoch)])
            replica.incarnation += 1
            replica.leader_epoch, replica.high_watermark = -1, 0
            replica.progress, replica.proposed = {}, set()
        assert self.propose(self.registered(replica))
        replica.is_up, replica.is_fenced = True, False
        replica.clean_shutdown_epoch = None
        # What was committed before is not carried out one by one.
        replica.seen, replica.seen_changes = self.image.copy(), len(self.committed_changes)
        replica.begin()
        replica.epoch = self.image.brokers[broker_id].epoch
        self.check(self.partition)

    @rule()
    def control(self) -> None:
        for replica in self.replicas.values():
            if replica.is_up and not replica.is_fenced:
                self.stand_and_look(replica.broker_id)

    def stand_and_look(self, broker_id: BrokerId) -> None:
        self.propose(lambda image: decide_candidacy(image, broker_id))
        self.propose(lambda image: self.controllers[broker_id].decide(image, broker_id, INHERITED))

    @rule()
    def elect_preferred(self) -> None:
        def decide(image: ClusterImage) -> list[PartitionChanged]:
            outcomes = decide_elections(image, None, Election.PREFERRED, INHERITED)
            return [outcome for outcome in outcomes.values() if isinstance(outcome, PartitionChanged)]

        self.propose(decide)

    @rule(wanted=st.none() | st.lists(some_broker, min_size=1, max_size=4, unique=True))
    def reassign(self, wanted: list[BrokerId] | None) -> None:
        def decide(image: ClusterImage) -> list[PartitionChanged]:
            change = decide_reassignment(image, ORDERS, 0, wanted, INHERITED)
            return [] if change is None else [change]

        self.propose(decide)

    @rule(min_isr=st.integers(1, 3))
    def change_minimum(self, min_isr: int) -> None:
        self.propose(lambda image: [TopicConfigChanged(ORDERS_ID, {"min.insync.replicas": str(min_isr)})])

    # What must hold

    @rule()
    def settle(self) -> None:
        """When the controller has looked, nothing is left to decide, and whoever can lead does."""
        live = [broker_id for broker_id in self.image.brokers if self.replicas[broker_id].is_up]
        for broker_id in BROKERS:
            if broker_id in self.image.brokers and broker_id not in live:
                self.lease_is_over(broker_id)
        if not live:
            return
        self.propose(lambda image: decide_candidacy(image, min(image.active_brokers, default=live[0])))
        controller = self.image.controller
        self.propose(lambda image: Controller().decide(image, controller, INHERITED))
        assert Controller().decide(self.image, controller, INHERITED) == []
        partition = self.partition
        assert partition is not None
        able = set(partition.isr) | set(partition.elr) or {self.last_leader} & set(partition.replicas)
        assert (partition.leader in self.image.brokers) == (not able.isdisjoint(self.image.brokers))
        assert set(partition.isr) <= set(self.image.brokers)
        rules = ReplicationRules.of(self.image.topics[ORDERS], INHERITED)
        assert may_commit(partition, rules) == (len(partition.isr) >= effective_minimum(partition, rules))
        for broker in self.image.brokers.values():
            assert not broker.is_shutting_down or may_stop(self.image, broker.broker_id)

    @invariant()
    def what_is_relied_upon_holds_every_committed_record(self) -> None:
        partition = self.partition
        if partition is None:
            return
        # A process that died is relied upon until it registers again; it cannot act before.
        relied_on = [each for each in (*partition.isr, *partition.elr) if not self.replicas[each].is_dead]
        for record, _ in self.committed.values():
            for broker_id in relied_on:
                log = self.replicas[broker_id].log
                assert record.offset < len(log), f"{broker_id} lacks {record}"
                assert log[record.offset] == record, f"{broker_id} has another record than {record}"


LeaderElections.TestCase.settings = settings(
    max_examples=200,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestLeaderElections = LeaderElections.TestCase

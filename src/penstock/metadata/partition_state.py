"""The next state of a partition: who is in sync, who stays eligible, and who leads.

Every change of a partition's leader or in-sync replicas is computed here, whichever module decides that there is one:
the leader's own proposals (`in_sync.py`), registrations (`registration.py`), reassignments (`reassignment.py`),
elections on request (`elections.py`) and the controller's care (`controller.py`).

Must not know: topics by name, requests, stores, time.

Invariants, where the leader keeps to `may_commit`:
- Every in-sync replica and every eligible leader replica (ELR, KIP-966) holds all committed records, unless it ended
  uncleanly since, and an unclean end removes it from both sets before it may register again.
- The leader is live when it is elected, and is an in-sync replica.
- `next_state` of its own result is None: it says everything that follows from a state at once.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING

from penstock.core.ids import NO_LEADER, BrokerId, LeaderEpoch

if TYPE_CHECKING:
    from penstock.metadata.changes import PartitionImage, TopicImage
    from penstock.metadata.image import ClusterImage
    from penstock.metadata.topic_config import TopicConfig


@dataclass(frozen=True, slots=True)
class LiveBrokers:
    """`active` are those that are not shutting down."""

    live: frozenset[BrokerId]
    active: frozenset[BrokerId]

    @classmethod
    def of(cls, image: ClusterImage) -> LiveBrokers:
        return cls(frozenset(image.brokers), image.active_brokers)

    def with_active(self, broker_id: BrokerId) -> LiveBrokers:
        return LiveBrokers(self.live | {broker_id}, self.active | {broker_id})

    def with_shutting_down(self, broker_id: BrokerId) -> LiveBrokers:
        return LiveBrokers(self.live, self.active - {broker_id})


@dataclass(frozen=True, slots=True)
class ReplicationRules:
    """The settings of a topic that decide about its leaders."""

    min_insync_replicas: int
    unclean_leader_election: bool

    @classmethod
    def of(cls, topic: TopicImage, inherited: TopicConfig) -> ReplicationRules:
        """`inherited` is the configuration of a topic without settings of its own."""
        config = inherited.with_overrides(topic.configs)
        return cls(config.min_insync_replicas, config.unclean_leader_election_enable)


class Election(Enum):
    """What a change asks of the leader."""

    AS_NEEDED = auto()
    """The leader stays while it is in sync."""
    PREFERRED = auto()
    """The first replica leads, if it is in sync."""
    UNCLEAN = auto()
    """Any live replica may lead a partition that would be left without a leader, as if its topic allowed that."""


def effective_minimum(partition: PartitionImage, rules: ReplicationRules) -> int:
    """The in-sync replicas that a commit needs. A partition with fewer replicas than that needs all of them."""
    return min(rules.min_insync_replicas, len(partition.replicas))


def may_commit(partition: PartitionImage, rules: ReplicationRules) -> bool:
    """Whether the leader may advance the high watermark (KIP-966): never past what an eligible replica holds.

    There are eligible replicas only below the minimum. They are asked about all the same: a minimum that was lowered
    must not commit records that they lack, until the controller has taken them back.
    """
    return len(partition.isr) >= effective_minimum(partition, rules) and not partition.elr


def next_state(
    before: PartitionImage,
    brokers: LiveBrokers,
    rules: ReplicationRules,
    *,
    wanted: PartitionImage | None = None,
    unclean_ends: Collection[BrokerId] = (),
    election: Election = Election.AS_NEEDED,
) -> PartitionImage | None:
    """The state that follows from the wanted replicas and in-sync replicas (those of `before` by default).

    None if nothing changes. Replicas in `unclean_ends` may have lost records: they are neither in sync nor eligible.
    """
    wanted = before if wanted is None else wanted
    in_sync = _in_sync(wanted, brokers, unclean_ends)
    eligible = tuple(
        replica
        for replica in wanted.replicas
        if (replica in before.elr or replica in before.isr) and replica not in unclean_ends
    )
    led = replace(wanted, isr=in_sync, elr=tuple(replica for replica in eligible if replica not in in_sync))
    leader, isr = _elected(before, led, brokers, rules, election)
    enough = len(isr) >= effective_minimum(wanted, rules)
    # A replica that was elected without being eligible begins another history.
    is_unclean = leader != NO_LEADER and not in_sync and leader not in led.elr
    after = replace(
        wanted,
        leader=leader,
        leader_epoch=_next_leader_epoch(before, wanted, leader, unclean_ends),
        isr=isr,
        elr=() if enough or is_unclean else tuple(replica for replica in eligible if replica not in isr),
        last_known_leader=NO_LEADER if leader != NO_LEADER else _last_leader(before),
        partition_epoch=before.partition_epoch,
    )
    return None if after == before else replace(after, partition_epoch=before.partition_epoch + 1)


def _in_sync(wanted: PartitionImage, brokers: LiveBrokers, unclean_ends: Collection[BrokerId]) -> tuple[BrokerId, ...]:
    """A broker that is shutting down leaves, unless no other one is left."""
    live = [replica for replica in wanted.isr if replica in brokers.live and replica not in unclean_ends]
    active = [replica for replica in live if replica in brokers.active]
    return tuple(active or live)


def _elected(
    before: PartitionImage, led: PartitionImage, brokers: LiveBrokers, rules: ReplicationRules, election: Election
) -> tuple[BrokerId, tuple[BrokerId, ...]]:
    """The leader and the in-sync replicas: all of them if it is one of them, else the leader alone."""
    preferred = led.replicas[0]
    if election is Election.PREFERRED and preferred in led.isr and preferred in brokers.active:
        return preferred, led.isr
    if before.leader in led.isr:
        return before.leader, led.isr
    for able in (brokers.active, brokers.live):
        for complete in (led.isr, led.elr):
            leader = _first(led, complete, able)
            if leader is not None:
                return leader, led.isr if leader in led.isr else (leader,)
    return _elected_from_incomplete(before, led, brokers, rules, election)


def _elected_from_incomplete(
    before: PartitionImage, led: PartitionImage, brokers: LiveBrokers, rules: ReplicationRules, election: Election
) -> tuple[BrokerId, tuple[BrokerId, ...]]:
    """No live replica is known to hold every committed record."""
    last = _last_leader(before)
    if not led.elr and last in led.replicas and last in brokers.live:
        # No replica is known to hold more than the last leader does (KIP-966).
        return last, (last,)
    if rules.unclean_leader_election or election is Election.UNCLEAN:
        for candidates in (brokers.active, brokers.live):
            leader = _first(led, led.replicas, candidates)
            if leader is not None:
                return leader, (leader,)
    return NO_LEADER, ()


def _first(led: PartitionImage, candidates: Collection[BrokerId], brokers: Collection[BrokerId]) -> BrokerId | None:
    """In the order of the replicas, where the first one is preferred."""
    return next((replica for replica in led.replicas if replica in candidates and replica in brokers), None)


def _last_leader(before: PartitionImage) -> BrokerId:
    return before.leader if before.leader != NO_LEADER else before.last_known_leader


def _next_leader_epoch(
    before: PartitionImage, wanted: PartitionImage, leader: BrokerId, unclean_ends: Collection[BrokerId]
) -> LeaderEpoch:
    """A leader that ended uncleanly may have lost records of its epoch: its next ones must not be taken for those.

    A replica that was removed deletes its log. If it is added again, what the leader remembers of it must not count.
    """
    begins = (
        leader != before.leader
        or (leader != NO_LEADER and leader in unclean_ends)
        or not set(before.replicas) <= set(wanted.replicas)
    )
    return LeaderEpoch(before.leader_epoch + begins)

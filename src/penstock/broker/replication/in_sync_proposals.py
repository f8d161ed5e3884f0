"""The leader's part in who is in sync: proposes followers that have caught up, and those that lag.

Looks at a partition when a follower outside the in-sync replicas has caught up, and at all of them in intervals.
Partitions that need a change at the same time share a proposal. One proposal is under way at a time;
`metadata/in_sync.py` decides each partition in it on the newest image.

Invariant: from the moment of a proposal until its outcome is known, the leader counts the replicas of both sets
(`LeaderState.propose_in_sync`). Where the outcome stays unknown, because the store did not answer, it goes on counting
both, until a later proposal has been decided.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from penstock.core.ids import PartitionIndex, TopicId
from penstock.metadata.in_sync import decide_in_sync, may_join
from penstock.protocol.error_codes import BrokerError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.broker.node import Node
    from penstock.broker.partition import Partition
    from penstock.core.ids import BrokerId
    from penstock.metadata.changes import Change
    from penstock.metadata.image import ClusterImage
    from penstock.replication.roles import LeaderState

logger = logging.getLogger(__name__)

PARTITIONS_PER_PROPOSAL_MAX: Final = 500
_RETRY_S: Final = 0.5
_OUTCOME_UNKNOWN: Final = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NETWORK_EXCEPTION})


class _Wish:
    """What one partition's leader wants to change."""

    __slots__ = ("joining", "leader", "leaving", "partition", "refusal")

    def __init__(
        self, partition: Partition, leader: LeaderState, joining: dict[BrokerId, int], leaving: Sequence[BrokerId]
    ) -> None:
        self.partition = partition
        self.leader = leader
        self.joining = joining
        self.leaving = leaving
        self.refusal: BrokerError | None = None

    def decide(self, image: ClusterImage, node: Node) -> Sequence[Change]:
        self.refusal = None
        partition, leader = self.partition, self.leader
        try:
            return decide_in_sync(
                image,
                TopicId(partition.topic_id),
                PartitionIndex(partition.index),
                leader=node.broker_id,
                leader_epoch=leader.leader_epoch,
                partition_epoch=leader.partition_epoch,
                joining=self.joining,
                leaving=self.leaving,
                inherited=node.inherited_topic_config,
            )
        except BrokerError as error:
            self.refusal = error.to_keep()
            return []

    def __str__(self) -> str:
        parts = [f"broker {replica} joins" for replica in self.joining]
        parts += [f"broker {replica} leaves" for replica in self.leaving]
        return f"{self.partition}: {', '.join(parts)} the in-sync replicas"


class InSyncProposals:
    """Belongs to the event loop."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._due: dict[Partition, None] = {}
        self._is_proposing = False
        self._is_scheduled = False

    async def watch_lag(self) -> None:
        """As Kafka: a follower leaves at most one and a half times `replica.lag.time.max.ms` after it has caught up."""
        while True:
            await asyncio.sleep(self._node.config.replica_lag_time_max_ms / 2000)
            for partition in self._node.topics.led():
                if partition.leader is not None and len(partition.leader.replicas) > 1:
                    self._look_soon(partition)

    def follower_caught_up(self, partition: Partition, broker_id: BrokerId) -> None:
        """A follower outside the in-sync replicas holds everything that may be committed."""
        leader = partition.leader
        if leader is not None and self._may_join(leader, broker_id) and not leader.is_proposing:
            self._look_soon(partition)

    def _may_join(self, leader: LeaderState, broker_id: BrokerId) -> bool:
        progress = leader.progress_of(broker_id)
        return (
            progress is not None
            and leader.may_join(broker_id)
            and may_join(self._node.image, broker_id, progress.broker_epoch)
        )

    def _look_soon(self, partition: Partition) -> None:
        self._due[partition] = None
        self._schedule(0)

    def _schedule(self, delay_s: float) -> None:
        if not self._is_scheduled and not self._is_proposing:
            self._is_scheduled = True
            # After this turn of the loop: other followers that have caught up by then share the proposal.
            self._node.loop.call_later(delay_s, self._propose)

    def _propose(self) -> None:
        self._is_scheduled = False
        node = self._node
        if node.tasks.is_closed or node.is_fenced:
            return  # A fenced leader may have been replaced; what it wants is looked at again in intervals.
        wishes: list[_Wish] = []
        while self._due and len(wishes) < PARTITIONS_PER_PROPOSAL_MAX:
            wish = self._wish(self._due.popitem()[0])
            if wish is not None:
                wishes.append(wish)
        if not wishes:
            return
        self._is_proposing = True
        node.propose(
            lambda image: [change for wish in wishes for change in wish.decide(image, node)],
            lambda failure: self._decided(wishes, failure),
        )

    def _wish(self, partition: Partition) -> _Wish | None:
        leader = partition.leader
        if leader is None or partition.is_deleted:
            return None
        now_ms = self._node.clock.monotonic_ms()
        leaving = leader.lagging_followers(now_ms, self._node.config.replica_lag_time_max_ms)
        joining = {
            replica: progress.broker_epoch
            for replica in leader.replicas
            if (progress := leader.progress_of(replica)) is not None and self._may_join(leader, replica)
        }
        if not leaving and not joining:
            # Or the outcome of an earlier proposal is unknown: one without a change tells which of the two sets holds.
            return _Wish(partition, leader, {}, ()) if leader.is_proposing else None
        leader.propose_in_sync((leader.in_sync | joining.keys()) - set(leaving))
        return _Wish(partition, leader, joining, leaving)

    def _decided(self, wishes: list[_Wish], failure: BrokerError | None) -> None:
        self._is_proposing = False
        if failure is not None and failure.code in _OUTCOME_UNKNOWN:
            logger.warning("in-sync replicas cannot be changed now: %s", failure.message)
            self._due.update((wish.partition, None) for wish in wishes)
            self._schedule(_RETRY_S)
            return
        if failure is not None:
            logger.warning("in-sync replicas were not changed: %s", failure.message)
        for wish in wishes:
            self._conclude(wish, failure)
        if self._due:
            self._schedule(0)

    def _conclude(self, wish: _Wish, failure: BrokerError | None) -> None:
        if wish.partition.leader is wish.leader:
            wish.partition.proposal_ended()
        if wish.refusal is not None:
            logger.info("%s: refused: %s", wish, wish.refusal.message)
        elif failure is None and (wish.joining or wish.leaving):
            logger.info("%s", wish)

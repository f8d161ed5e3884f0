"""Deliberate defects: one line of the design broken at a time, which the simulation must find.

Each is what an engineer could write by mistake. `DEFECTS` names them; a test looks for each in a bounded number of
seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from penstock.broker.coordinator_log import CoordinatorLog
from penstock.broker.etcd.session import Session
from penstock.broker.partition import Partition
from penstock.core.ids import BrokerId
from penstock.log.producer_state import ProducerState
from penstock.metadata import partition_state, registration
from penstock.metadata.changes import BrokerImage, Change, PartitionImage
from penstock.metadata.image import ClusterImage
from penstock.metadata.topic_config import TopicConfig
from penstock.replication.roles import FollowerState, LeaderState
from tests.simulation.cluster.run import MOVES_EVERY

Patch = pytest.MonkeyPatch


def acknowledged_before_the_in_sync_replicas_have_it(patch: Patch) -> None:
    """The high watermark follows the leader's own log."""

    def advance(self: Any) -> int:
        if self._may_advance:
            self.high_watermark = max(self.high_watermark, self._end_offset)
        return int(self.high_watermark)

    patch.setattr(LeaderState, "_advance", advance)


def truncated_by_the_high_watermark(patch: Patch) -> None:
    """A new follower gives up what it does not know to be committed, as before KIP-101."""
    take_role = Partition._take_role

    def truncating(self: Any, role: Any) -> None:
        if isinstance(role, FollowerState) and hasattr(self, "role") and self.log.log_end_offset > self.high_watermark:
            self.log.truncate_to(self.high_watermark)
        take_role(self, role)

    patch.setattr(Partition, "_take_role", truncating)


def lease_trusted_too_long(patch: Patch) -> None:
    """The deadline counts from the answer of a keep-alive, and the lease is trusted for twice its time."""

    def extend(self: Any, sent_ms: int) -> None:
        self.deadline_ms = self._clock.monotonic_ms() + 2 * self._ttl_ms

    patch.setattr(Session, "_extend", extend)


def stale_replica_joins_the_in_sync_replicas(patch: Patch) -> None:
    """A follower joins with its first fetch, wherever it stands."""

    def may_join(self: Any, broker_id: BrokerId) -> bool:
        return self._progress.get(broker_id) is not None and broker_id not in self.in_sync

    patch.setattr(LeaderState, "may_join", may_join)


def no_eligible_leader_replicas(patch: Patch) -> None:
    """Who leaves the in-sync replicas is forgotten, however few are left."""
    next_state = partition_state.next_state

    def without_elr(before: PartitionImage, *args: Any, **options: Any) -> PartitionImage | None:
        after = next_state(before, *args, **options)
        return after if after is None else replace(after, elr=())

    for module in ("in_sync", "registration", "reassignment", "elections"):
        patch.setattr(f"penstock.metadata.{module}.next_state", without_elr)


def follower_progress_kept_over_an_incarnation(patch: Patch) -> None:
    """A follower that came back is taken to hold what it held before."""
    fetched = LeaderState.follower_fetched

    def keeping(
        self: Any, broker_id: BrokerId, end_offset: int, now_ms: int, broker_epoch: int = -1, start: int = -1
    ) -> int:
        progress = self._progress.get(broker_id)
        if progress is not None:
            end_offset = max(end_offset, progress.end_offset)
        return fetched(self, broker_id, end_offset, now_ms, broker_epoch, start)

    patch.setattr(LeaderState, "follower_fetched", keeping)


def marker_without_a_coordinator_epoch(patch: Patch) -> None:
    """A partition takes the marker of any coordinator, also of one that was replaced."""
    patch.setattr(ProducerState, "check_marker", lambda self, *args, **options: None)


def unclean_restart_stays_in_sync(patch: Patch) -> None:
    """A registration changes nothing but the registration."""
    decide = registration.decide_registration

    def trusting(
        image: ClusterImage, broker: BrokerImage, clean_shutdown_epoch: int | None, inherited: TopicConfig
    ) -> list[Change]:
        known = image.known_brokers.get(broker.broker_id)
        return decide(image, broker, known.epoch if known is not None else None, inherited)

    patch.setattr("penstock.broker.registration.decide_registration", trusting)


def committed_below_the_minimum(patch: Patch) -> None:
    """The high watermark advances however few replicas are in sync (before KIP-966)."""
    count = LeaderState._count

    def counting(self: Any) -> int:
        count(self)
        self._may_advance = True
        self._advances_alone = not self._counted
        return int(self._advance())

    patch.setattr(LeaderState, "_count", counting)


def coordinator_serves_before_it_has_loaded(patch: Patch) -> None:
    """The first request finds what has been read by then, which is nothing."""
    patch.setattr(CoordinatorLog, "load", lambda self, partition: iter(()))


DEFECTS: Final[Sequence[Callable[[Patch], None]]] = (
    acknowledged_before_the_in_sync_replicas_have_it,
    truncated_by_the_high_watermark,
    lease_trusted_too_long,
    stale_replica_joins_the_in_sync_replicas,
    no_eligible_leader_replicas,
    follower_progress_kept_over_an_incarnation,
    marker_without_a_coordinator_epoch,
    unclean_restart_stays_in_sync,
    committed_below_the_minimum,
    coordinator_serves_before_it_has_loaded,
)


def seeds_for(defect: Callable[[Patch], None]) -> range:
    """Where to look for it, until it is found. What late messages of coordinators do is seen where those move."""
    if defect is marker_without_a_coordinator_epoch:
        return range(MOVES_EVERY - 1, 150 * MOVES_EVERY, MOVES_EVERY)
    return range(250)

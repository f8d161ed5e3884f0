"""A replica's role in its partition: leader or follower, as plain data and decisions.

The high watermark is the smallest log end offset of the in-sync replicas: every record below it is on all of them, so
that readers may see it and acks=all is kept. The leader learns a follower's log end offset from its fetches: a fetch
from an offset says that the follower holds everything before it.

The high watermark advances only while at least `min.insync.replicas` are in sync (KIP-966): a replica that leaves the
in-sync replicas below that number then still holds every committed record. While a change of the in-sync replicas is
proposed, the leader does not know which of the two sets holds, and counts the replicas of both.

Who leads, and who is in sync, is decided in the cluster's metadata and told here. Must not know: logs, requests, time
(it arrives as an argument). `broker/partition.py` joins a role with its log.

Invariant: within a role the high watermark never goes back.
Invariant: what a follower said counts for the broker epoch in which it said it. A broker that came back may hold less.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from penstock.core.ids import BrokerId, LeaderEpoch

UNKNOWN_OFFSET: Final = -1
NO_BROKER_EPOCH: Final = -1


class FollowerProgress:
    """What the leader knows of one follower. Unknown until its first fetch in this leader epoch."""

    __slots__ = ("broker_epoch", "caught_up_ms", "end_offset", "fetched_ms", "leader_end_offset", "log_start_offset")

    def __init__(self, now_ms: int, leader_end_offset: int) -> None:
        self.broker_epoch = NO_BROKER_EPOCH
        self.end_offset = self.log_start_offset = UNKNOWN_OFFSET
        self.caught_up_ms = self.fetched_ms = now_ms
        self.leader_end_offset = leader_end_offset  # at its last fetch

    def fetched(self, end_offset: int, log_start_offset: int, leader_end_offset: int, now_ms: int) -> None:
        """A follower has caught up that holds what the leader held at its last fetch: a busy leader is ahead again."""
        if end_offset >= leader_end_offset:
            self.caught_up_ms = now_ms
        elif end_offset >= self.leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.end_offset = end_offset
        self.log_start_offset = log_start_offset
        self.fetched_ms = now_ms
        self.leader_end_offset = leader_end_offset


class LeaderState:
    """The leader's view of all replicas."""

    __slots__ = (
        "_advances_alone",
        "_broker_id",
        "_counted",
        "_eligible",
        "_end_offset",
        "_may_advance",
        "_min_in_sync",
        "_progress",
        "_proposed",
        "has_enough_in_sync",
        "high_watermark",
        "in_sync",
        "leader_epoch",
        "partition_epoch",
        "replicas",
        "start_offset",
    )

    def __init__(
        self,
        broker_id: BrokerId,
        leader_epoch: LeaderEpoch,
        replicas: Sequence[BrokerId],
        in_sync: Collection[BrokerId],
        high_watermark: int,
        now_ms: int,
        *,
        start_offset: int = 0,
        min_in_sync: int = 1,
        partition_epoch: int = 0,
        eligible: Collection[BrokerId] = (),
    ) -> None:
        """`high_watermark` is the last one that is known, `start_offset` the log end offset when this epoch began.

        A new leader gives its followers time to catch up.
        """
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.replicas: tuple[BrokerId, ...] = ()
        self.high_watermark = high_watermark
        self.start_offset = start_offset
        self._broker_id = broker_id
        self._end_offset = high_watermark
        self._progress: dict[BrokerId, FollowerProgress] = {}
        self._min_in_sync = min_in_sync
        self._proposed: frozenset[BrokerId] | None = None
        self._eligible = frozenset(eligible)
        self.in_sync = frozenset(in_sync)
        self.has_enough_in_sync = False
        """Whether as many replicas are in sync as `min.insync.replicas` asks for; never more than there are."""
        self.change_replicas(replicas, now_ms)

    # The metadata

    def change_replicas(self, replicas: Sequence[BrokerId], now_ms: int) -> int:
        """A reassignment has added or removed replicas. Returns the high watermark."""
        self.replicas = tuple(replicas)
        self._progress = {
            replica: self._progress.get(replica) or FollowerProgress(now_ms, self._end_offset)
            for replica in self.replicas
            if replica != self._broker_id
        }
        return self._count()

    def change_in_sync(
        self, in_sync: Collection[BrokerId], partition_epoch: int = 0, eligible: Collection[BrokerId] = ()
    ) -> int:
        """The metadata names other in-sync replicas, and those that are eligible to lead beside them (KIP-966).

        Returns the high watermark, which may have advanced.
        """
        self.in_sync = frozenset(in_sync)
        self._eligible = frozenset(eligible)
        self.partition_epoch = partition_epoch
        return self._count()

    def change_min_in_sync(self, min_in_sync: int) -> int:
        """`min.insync.replicas` has changed. Returns the high watermark."""
        self._min_in_sync = min_in_sync
        return self._count()

    @property
    def is_proposing(self) -> bool:
        return self._proposed is not None

    def propose_in_sync(self, in_sync: Collection[BrokerId]) -> None:
        """A change is proposed: from now on its replicas count, and those that it leaves out still do."""
        earlier = self._proposed or frozenset()  # of unknown outcome
        self._proposed = earlier.union(in_sync)
        self._count()

    def proposal_ended(self) -> int:
        """The proposal was refused, or its change has been applied. Returns the high watermark.

        Not to be called while it is unknown whether the change was committed.
        """
        self._proposed = None
        return self._count()

    # Progress

    def appended(self, end_offset: int) -> int:
        """The leader's own log holds everything below `end_offset`, as durably as its topic asks for.

        Returns the high watermark.
        """
        self._end_offset = max(self._end_offset, end_offset)
        if not self._advances_alone:
            return self._advance()
        self.high_watermark = max(self.high_watermark, end_offset)
        return self.high_watermark

    def follower_fetched(
        self,
        broker_id: BrokerId,
        end_offset: int,
        now_ms: int,
        broker_epoch: int = NO_BROKER_EPOCH,
        log_start_offset: int = UNKNOWN_OFFSET,
    ) -> int:
        """A follower has fetched from `end_offset` on. Returns the high watermark."""
        progress = self._progress.get(broker_id)
        if progress is None or broker_epoch < progress.broker_epoch:
            # Not a replica of this partition, or no longer; or a late fetch of an earlier registration.
            return self.high_watermark
        if broker_epoch != progress.broker_epoch:
            progress.broker_epoch = broker_epoch
            progress.leader_end_offset = self._end_offset
        progress.fetched(end_offset, log_start_offset, self._end_offset, now_ms)
        return self._advance()

    def progress_of(self, broker_id: BrokerId) -> FollowerProgress | None:
        return self._progress.get(broker_id)

    def lagging_followers(self, now_ms: int, lag_time_max_ms: int) -> tuple[BrokerId, ...]:
        """In-sync followers that have not caught up for longer than `replica.lag.time.max.ms`.

        They hold the high watermark back and should leave the in-sync replicas.
        """
        return tuple(
            follower
            for follower, progress in self._progress.items()
            if follower in self.in_sync
            and progress.end_offset < self._end_offset
            and now_ms - progress.caught_up_ms > lag_time_max_ms
        )

    def may_join(self, broker_id: BrokerId) -> bool:
        """Whether a follower outside the in-sync replicas holds every record that may be committed.

        Those are the records below the high watermark, and below the start of this leader epoch: an earlier leader may
        have committed them and not told.
        """
        progress = self._progress.get(broker_id)
        return (
            progress is not None
            and broker_id not in self.in_sync
            and progress.end_offset >= self.high_watermark
            and progress.end_offset >= self.start_offset
        )

    @property
    def may_answer_end_offset(self) -> bool:
        """Whether the high watermark has reached the start of this epoch: before that, an earlier leader may have told
        readers of a higher one (KIP-207)."""
        return self.high_watermark >= self.start_offset

    def _count(self) -> int:
        """Works out which replicas the high watermark depends on."""
        counted = self.in_sync if self._proposed is None else self.in_sync | self._proposed
        self._counted = tuple(self._progress[replica] for replica in counted if replica in self._progress)
        self.has_enough_in_sync = len(self.in_sync) >= min(self._min_in_sync, len(self.replicas))
        # A minimum that was lowered must not commit what an eligible replica lacks, until the controller has taken its
        # eligibility back.
        self._may_advance = self.has_enough_in_sync and not self._eligible
        self._advances_alone = self._may_advance and not self._counted
        return self._advance()

    def _advance(self) -> int:
        if not self._may_advance:
            return self.high_watermark
        end_offset = self._end_offset
        for follower in self._counted:
            end_offset = min(end_offset, follower.end_offset)
        self.high_watermark = max(self.high_watermark, end_offset)
        return self.high_watermark


class FollowerState:
    """A follower's view: whom it follows, and how far the leader's readers may read. `leader` is -1 without one."""

    __slots__ = ("high_watermark", "leader", "leader_epoch")

    def __init__(self, leader: BrokerId, leader_epoch: LeaderEpoch, high_watermark: int) -> None:
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.high_watermark = high_watermark

    def fetched(self, leader_high_watermark: int, end_offset: int) -> int:
        """A fetch told the leader's high watermark; this replica's log now ends at `end_offset`.

        Returns the high watermark here: what the follower holds of the readable records.
        """
        self.high_watermark = max(self.high_watermark, min(leader_high_watermark, end_offset))
        return self.high_watermark

    def truncated(self, end_offset: int) -> int:
        """Records at the end were removed, because the leader does not have them. Returns the high watermark."""
        self.high_watermark = min(self.high_watermark, end_offset)
        return self.high_watermark

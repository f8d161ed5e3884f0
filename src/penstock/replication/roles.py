"""A replica's role in its partition: leader or follower, as plain data and decisions.

The high watermark is the smallest log end offset of the in-sync replicas: every record below it is on all of them, so
that readers may see it and acks=all is kept. The leader learns a follower's log end offset from its fetches: a fetch
from an offset says that the follower holds everything before it.

Who leads, and who is in sync, is decided in the cluster's metadata and told here. Must not know: logs, requests, time
(it arrives as an argument). `broker/partition.py` joins a role with its log.

Invariant: within a role the high watermark never goes back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from penstock.core.ids import BrokerId, LeaderEpoch


class LeaderState:
    """The leader's view of all replicas."""

    __slots__ = (
        "_broker_id",
        "_caught_up_ms",
        "_end_offset",
        "_follower_end_offsets",
        "_followers_in_sync",
        "high_watermark",
        "in_sync",
        "leader_epoch",
        "replicas",
    )

    def __init__(
        self,
        broker_id: BrokerId,
        leader_epoch: LeaderEpoch,
        replicas: Sequence[BrokerId],
        in_sync: Collection[BrokerId],
        high_watermark: int,
        now_ms: int,
    ) -> None:
        """`high_watermark` is the last one that is known. A new leader gives its followers time to catch up."""
        self.leader_epoch = leader_epoch
        self.replicas = tuple(replicas)
        self.high_watermark = high_watermark
        self._broker_id = broker_id
        self._end_offset = high_watermark
        # Unknown until a follower's first fetch in this epoch.
        self._follower_end_offsets: dict[BrokerId, int] = {}
        self._caught_up_ms = {replica: now_ms for replica in self.replicas if replica != broker_id}
        self.in_sync: frozenset[BrokerId] = frozenset()
        self._followers_in_sync: tuple[BrokerId, ...] = ()
        self.change_in_sync(in_sync)

    def change_in_sync(self, in_sync: Collection[BrokerId]) -> int:
        """The metadata names other in-sync replicas. Returns the high watermark, which may have advanced."""
        self.in_sync = frozenset(in_sync)
        self._followers_in_sync = tuple(replica for replica in self.in_sync if replica != self._broker_id)
        return self._advance()

    def appended(self, end_offset: int) -> int:
        """The leader's own log holds everything below `end_offset`, as durably as its topic asks for.

        Returns the high watermark.
        """
        self._end_offset = end_offset
        if self._followers_in_sync:
            return self._advance()
        self.high_watermark = max(self.high_watermark, end_offset)
        return self.high_watermark

    def follower_fetched(self, broker_id: BrokerId, end_offset: int, now_ms: int) -> int:
        """A follower has fetched from `end_offset` on. Returns the high watermark."""
        if broker_id not in self._caught_up_ms:
            # Not a replica of this partition, or no longer: its progress decides nothing.
            return self.high_watermark
        self._follower_end_offsets[broker_id] = end_offset
        if end_offset >= self._end_offset:
            self._caught_up_ms[broker_id] = now_ms
        return self._advance()

    def lagging_followers(self, now_ms: int, lag_time_max_ms: int) -> tuple[BrokerId, ...]:
        """In-sync followers that have not caught up for longer than `replica.lag.time.max.ms`.

        They hold the high watermark back and should leave the in-sync replicas.
        """
        return tuple(
            follower
            for follower in self._followers_in_sync
            if self._follower_end_offsets.get(follower, -1) < self._end_offset
            and now_ms - self._caught_up_ms[follower] > lag_time_max_ms
        )

    def _advance(self) -> int:
        end_offset = self._end_offset
        for follower in self._followers_in_sync:
            end_offset = min(end_offset, self._follower_end_offsets.get(follower, -1))
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

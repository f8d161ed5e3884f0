"""What a broker does on its own: flushes by time (`flush.ms`), retention, compaction, checkpoints, the expiry of idle
producers, and the check that its files are still in their place.

One timer for all partitions, so that thousands of idle ones cost nothing between its turns.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

from penstock.broker.log_cleaner import LogCleaner
from penstock.broker.log_retention import LogRetention
from penstock.broker.node import Node
from penstock.broker.presence import PresenceWatch

logger = logging.getLogger(__name__)

_TURN_SECONDS: Final = 1.0
_CHECKPOINT_TURNS: Final = 60
_EXPIRY_TURNS: Final = 600


class Housekeeping:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._presence = PresenceWatch(node)
        self._retention = LogRetention(node)
        self._cleaner = LogCleaner(node)
        self._turn = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._timer = self._node.loop.call_later(_TURN_SECONDS, self._take_turn)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._cleaner.stop()

    def _take_turn(self) -> None:
        self._turn += 1
        now_ms = self._node.now_ms()
        self._presence.begin_check()
        self._flush(now_ms)
        self._retention.take_turn(now_ms)
        self._cleaner.take_turn(now_ms)
        if self._turn % _CHECKPOINT_TURNS == 0:
            self._checkpoint()
            self._cleaner.checkpoint()
        if self._turn % _EXPIRY_TURNS == 0:
            for partition in self._node.topics.replicas():
                partition.log.remove_expired_producers(now_ms)
        self.start()

    def _flush(self, now_ms: int) -> None:
        """No record stays unsynced for longer than `flush.ms`; and sealed segments are synced, as in Kafka, so that a
        start after a crash has only the newest one to look over."""
        for partition in self._node.topics.replicas():
            oldest = partition.unflushed_since_ms
            if oldest is None or partition.offline_reason is not None:
                continue
            if now_ms - oldest >= partition.config.flush_ms or partition.log.has_unflushed_sealed_segment:
                self._node.flusher.request(partition, lambda failure: None)

    def _checkpoint(self) -> None:
        try:
            self._node.checkpoint()
        except OSError as error:
            # The checkpoints only save work after a crash; the disk's trouble shows elsewhere, where it matters.
            logger.warning("%s: cannot write checkpoints: %s", self._node.log_directory.path, error.strerror)

"""Says in the log when the store of the metadata cannot be reached, and when it can again: one line each."""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.core.clock import Clock

logger = logging.getLogger(__name__)


class Availability:
    """`deadline_ms` tells until when the broker may act on its own, by the monotonic clock."""

    def __init__(self, clock: Clock, deadline_ms: Callable[[], int]) -> None:
        self._clock = clock
        self._deadline_ms = deadline_ms
        self._lost_since_ms: int | None = None
        self._said_timed_out = False
        self._said_session_over = False

    def lost(self, error: Exception) -> None:
        """A call failed. May be called again and again while the store is away."""
        now_ms = self._clock.monotonic_ms()
        if self._lost_since_ms is not None:
            if now_ms >= self._deadline_ms() and not self._said_session_over:
                self._said_session_over = True
                logger.warning("the session of this broker may have ended: it serves no client until it is renewed")
            return
        self._lost_since_ms = now_ms
        logger.warning(
            "the metadata store does not answer: %s; changes of the metadata wait, and the broker serves for another "
            "%.1f s unless it answers again",
            error,
            max(0, self._deadline_ms() - now_ms) / 1000,
        )

    def answered(self) -> None:
        if self._lost_since_ms is None:
            return
        away_ms = self._clock.monotonic_ms() - self._lost_since_ms
        self._lost_since_ms, self._said_timed_out, self._said_session_over = None, False, False
        logger.warning("the metadata store answers again, after %.1f s", away_ms / 1000)

    def timed_out(self) -> None:
        """A proposal was given up. One line for each time that the store is away."""
        if not self._said_timed_out:
            self._said_timed_out = True
            logger.warning("changes of the metadata time out, because the metadata store does not commit them")

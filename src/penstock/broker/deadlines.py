"""Many deadlines, one timer of the event loop: for the earliest of them.

An owner need not report a deadline that moved later: when the earlier one comes, the owner finds nothing due and sets
the next one. So heartbeats, which only move deadlines later, cost nothing here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush

Clock = Callable[[], int]


class Deadlines:
    """Calls `on_due` with a key when its deadline has come; the key has no deadline then, until it is set again."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now_ms: Clock, on_due: Callable[[str], None]) -> None:
        self._loop = loop
        self._now_ms = now_ms
        self._on_due = on_due
        self._by_key: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due_ms = 0

    def set(self, key: str, deadline_ms: int | None) -> None:
        """An earlier deadline replaces a later one, and never the other way round."""
        if deadline_ms is None:
            return
        known = self._by_key.get(key)
        if known is not None and known <= deadline_ms:
            return
        self._by_key[key] = deadline_ms
        heappush(self._heap, (deadline_ms, key))
        self._arm()

    def forget(self, key: str) -> None:
        self._by_key.pop(key, None)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        if not self._heap:
            return
        due_ms = self._heap[0][0]
        if self._timer is not None:
            if self._timer_due_ms <= due_ms:
                return
            self._timer.cancel()
        self._timer_due_ms = due_ms
        self._timer = self._loop.call_later(max(0, due_ms - self._now_ms()) / 1000, self._fire)

    def _fire(self) -> None:
        self._timer = None
        now_ms = self._now_ms()
        while self._heap and self._heap[0][0] <= now_ms:
            deadline_ms, key = heappop(self._heap)
            if self._by_key.get(key) == deadline_ms:
                del self._by_key[key]
                self._on_due(key)
        self._arm()

"""Many deadlines on one timer, on a loop whose time is the test's to move."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

from penstock.broker.deadlines import Deadlines


class HandTimer:
    def __init__(self, at_s: float, callback: Callable[[], None]) -> None:
        self.at_s = at_s
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class HandLoop:
    def __init__(self) -> None:
        self.now_s = 0.0
        self.timers: list[HandTimer] = []

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> HandTimer:
        timer = HandTimer(self.now_s + delay_s, callback)
        self.timers.append(timer)
        return timer

    def pending(self) -> list[HandTimer]:
        return [timer for timer in self.timers if not timer.cancelled]

    def advance_to(self, now_ms: int) -> None:
        self.now_s = now_ms / 1000
        for timer in [timer for timer in self.pending() if timer.at_s <= self.now_s]:
            timer.cancelled = True
            timer.callback()


class Watch:
    def __init__(self) -> None:
        self.loop = HandLoop()
        self.due: list[str] = []
        self.next_of: dict[str, int] = {}
        self.deadlines = Deadlines(
            cast(asyncio.AbstractEventLoop, self.loop), lambda: int(self.loop.now_s * 1000), self._is_due
        )

    def _is_due(self, key: str) -> None:
        self.due.append(key)
        self.deadlines.set(key, self.next_of.pop(key, None))


def test_each_key_is_told_when_its_time_has_come() -> None:
    watch = Watch()
    watch.deadlines.set("late", 300)
    watch.deadlines.set("early", 100)
    watch.deadlines.set("never", None)
    assert len(watch.loop.pending()) == 1

    watch.loop.advance_to(99)
    assert watch.due == []
    watch.loop.advance_to(100)
    assert watch.due == ["early"]
    watch.loop.advance_to(1_000)
    assert watch.due == ["early", "late"]
    assert watch.loop.pending() == []


def test_an_earlier_deadline_replaces_a_later_one_and_never_the_other_way_round() -> None:
    watch = Watch()
    watch.deadlines.set("key", 200)
    watch.deadlines.set("key", 100)
    watch.deadlines.set("key", 300)
    watch.loop.advance_to(100)
    assert watch.due == ["key"]
    watch.loop.advance_to(1_000)
    assert watch.due == ["key"]


def test_a_key_that_was_told_may_be_set_again_at_once() -> None:
    watch = Watch()
    watch.next_of["key"] = 200
    watch.deadlines.set("key", 100)
    watch.loop.advance_to(150)
    assert watch.due == ["key"]
    watch.loop.advance_to(250)
    assert watch.due == ["key", "key"]


def test_what_is_forgotten_or_closed_is_silent() -> None:
    watch = Watch()
    watch.deadlines.set("gone", 100)
    watch.deadlines.set("here", 200)
    watch.deadlines.forget("gone")
    watch.loop.advance_to(150)
    assert watch.due == []
    watch.deadlines.close()
    watch.loop.advance_to(1_000)
    assert watch.due == []

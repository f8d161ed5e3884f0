"""An event loop in virtual time: where asyncio would wait for a timer, the clock is moved to it instead.

Callbacks, timers, futures and tasks are asyncio's own. Work for an executor is done inline, in a turn of its own, so no
thread runs. An exception in a callback ends the simulation.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final

EPOCH_MS: Final = 1_700_000_000_000


class SimulatedLoop(asyncio.BaseEventLoop):
    """`run_until_idle` takes no time; `run_for` lets time pass."""

    _ready: deque[asyncio.Handle]

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self._selector = self  # asked for input and output whenever nothing is ready
        self._clock_resolution = 1e-9

    # What the simulation calls

    def run_until_idle(self) -> None:
        while self._ready:
            self.call_soon(self.stop)
            self.run_forever()

    def run_for(self, seconds: float) -> None:
        self.call_later(seconds, self.stop)
        self.run_forever()

    # What asyncio calls

    def time(self) -> float:
        return self._now_s

    def select(self, timeout: float | None) -> list[object]:
        """There is no input: the next event is the next timer."""
        assert timeout is not None, "nothing will ever happen again"
        self._now_s += timeout
        return []

    def _process_events(self, event_list: list[object]) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        """Wakes a loop that waits for input; this one never does."""

    def run_in_executor(self, executor: object, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        future = self.create_future()

        def work() -> None:
            try:
                result = func(*args)
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.call_soon(work)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        raise context.get("exception") or AssertionError(context["message"])


class SimulatedClock:
    """The loop's virtual time, as a node asks for it."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return EPOCH_MS + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return round(self._loop.time() * 1000)

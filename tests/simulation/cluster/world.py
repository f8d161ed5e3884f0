"""Virtual time for many processes: one order of events, one source of chance, one trace.

Every process has an event loop of its own (`ProcessLoop`), so that it can be paused or killed alone and has clocks of
its own. All loops share this world's queue: what happens next is decided here, by time and by the order of scheduling.

Owns the queue, virtual time, the seed's chance and the trace. Must never know: brokers, networks, disks.

Invariant: nothing runs for a process that is paused or dead. What became due while it was paused runs in order when it
is resumed.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from heapq import heappop, heappush
from typing import Any, Final, TypeVar, TypeVarTuple, Unpack, cast
from zlib import crc32

from penstock.core.clock import Clock

EPOCH_MS: Final = 1_700_000_000_000
DISK_S_MAX: Final = 0.002

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class SimulationFault(AssertionError):
    """What the simulation found: a broken promise, or an exception where none belongs."""


class World:
    """`run_until` takes events one by one; `after_event` is called behind those of watched processes."""

    def __init__(self, seed: int, *, keeps_trace: bool = False) -> None:
        self.random = random.Random(seed)
        self.now_s = 0.0
        self.events = 0
        self.trace: list[str] | None = [] if keeps_trace else None
        self.digest = 0
        """Checksum of the trace: two runs with the same one were the same run."""
        self.fault: BaseException | None = None
        self.active: ProcessLoop | None = None
        """The process that did something last."""
        self.dead: list[ProcessLoop] = []
        """Kept, so that what they had begun is not unwound in the middle of the run."""
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.Handle]] = []
        self._scheduled = 0

    def note(self, text: str) -> None:
        self.digest = crc32(text.encode(), self.digest)
        if self.trace is not None:
            self.trace.append(f"{self.now_s * 1000:12.3f} {text}")

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def call_soon(self, handle: asyncio.Handle) -> None:
        self._ready.append(handle)

    def call_at(self, when_s: float, handle: asyncio.Handle) -> None:
        self._scheduled += 1
        heappush(self._timers, (when_s, self._scheduled, handle))

    def run_until(self, is_over: Callable[[], bool], end_s: float, after_event: Callable[[], None]) -> bool:
        """Runs until `is_over` holds, which is asked in every turn; False if it does not by the end."""
        while not is_over():
            if not self._ready:
                if not self._timers or self._timers[0][0] > end_s:
                    self.now_s = end_s
                    return False
                self.now_s = max(self.now_s, self._timers[0][0])
                while self._timers and self._timers[0][0] <= self.now_s:
                    self._ready.append(heappop(self._timers)[2])
            self._take_turn(after_event)
        return True

    def _take_turn(self, after_event: Callable[[], None]) -> None:
        """Runs what is ready now; what that makes ready is for the next turn."""
        for _ in range(len(self._ready)):
            handle = self._ready.popleft()
            if handle.cancelled():
                continue
            loop = cast(ProcessLoop, handle._loop)  # type: ignore[attr-defined]
            if loop.is_dead:
                continue
            if loop.is_paused:
                loop.stalled.append(handle)
                continue
            self.events += 1
            asyncio._set_running_loop(loop)
            try:
                handle._run()
            finally:
                asyncio._set_running_loop(None)
            if self.fault is not None:
                raise self.fault
            if loop.is_watched:
                self.active = loop
                after_event()


class ProcessLoop(asyncio.BaseEventLoop):
    """The event loop of one simulated process.

    Its monotonic clock starts anywhere and runs at a rate of its own, as clocks of machines do. Work for a thread is
    done at some later moment, all at once.
    """

    def __init__(self, world: World, name: str, *, rate: float = 1.0, wall_offset_ms: int = 0) -> None:
        self.is_dead = False
        super().__init__()
        self.world = world
        self.name = name
        self.is_paused = False
        self.is_watched = False
        """Whether the world's `after_event` is called behind its events."""
        self.stalled: list[asyncio.Handle] = []
        self.wall_offset_ms = wall_offset_ms
        self._rate = rate
        self._offset_s = world.random.uniform(0, 1000.0)
        self.on_exception: Callable[[str], None] | None = None

    # What a nemesis does to it

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        stalled, self.stalled = self.stalled, []
        for handle in stalled:
            self.world.call_soon(handle)

    def kill(self) -> None:
        self.is_dead = True
        self.stalled.clear()
        self.world.dead.append(self)

    # What asyncio and the process call

    def time(self) -> float:
        return self.world.now_s * self._rate + self._offset_s

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self.is_dead:
            self.world.call_soon(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not self.is_dead:
            self.world.call_at((when - self._offset_s) / self._rate, handle)
        return handle

    def call_in_world(self, when_s: float, callback: Callable[..., object], *args: Any) -> None:
        """At a moment of the world's time, such as the arrival of bytes."""
        if not self.is_dead:
            self.world.call_at(when_s, asyncio.Handle(callback, args, self))

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: object = None, context: Context | None = None) -> asyncio.Task[Any]:
        return asyncio.Task(coro, loop=self, name=None if name is None else str(name), context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        future: asyncio.Future[T] = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                result = func(*args)
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(result)

        self.call_in_world(self.world.now_s + self.world.random.uniform(0, DISK_S_MAX), work)
        return future

    def get_debug(self) -> bool:
        return False

    def set_debug(self, enabled: bool) -> None:
        """Called once, when asyncio makes the loop."""

    def _write_to_self(self) -> None:
        """Wakes a loop that waits for input; this one never does."""

    def is_running(self) -> bool:
        return not self.is_dead

    def is_closed(self) -> bool:
        return self.is_dead

    def __del__(self) -> None:
        """It holds nothing that would have to be closed."""

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """It is left out when its time comes."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self.is_dead:
            return
        error = context.get("exception")
        fault = SimulationFault(f"{self.name}: {context['message']}: {error!r}")
        fault.__cause__ = error
        if self.world.fault is None:
            self.world.fault = fault

    # A network gives it connections: see `network.py`

    connect: Callable[..., Coroutine[Any, Any, Any]] | None = None
    listen: Callable[..., Any] | None = None

    async def create_connection(self, protocol_factory: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        assert self.connect is not None, f"{self.name} has no network"
        return await self.connect(protocol_factory, host, port)

    async def create_server(self, protocol_factory: Any, *, sock: Any, **options: Any) -> Any:  # type: ignore[override]
        assert self.listen is not None, f"{self.name} has no network"
        return self.listen(protocol_factory, sock)


class ProcessClock(Clock):
    """A process's own clocks: wall clocks may differ by hours, monotonic ones by a rate."""

    def __init__(self, loop: ProcessLoop) -> None:
        self._loop = loop

    def now_ms(self) -> int:
        return EPOCH_MS + self._loop.wall_offset_ms + int(self._loop.world.now_s * 1000)

    def monotonic_ms(self) -> int:
        return int(self._loop.time() * 1000)

"""TCP relays on loopback that can stop delivering: network partitions between processes of one machine, without root.

Every connection from one node to another passes through the relay of that ordered pair. A cut direction behaves like a
network that loses all packets of that direction: bytes wait, as TCP would send them again, and arrive after `heal`. The
ends of connections wait with them. Two differences to a real network remain: the relay accepts a connection that a real
cut would leave unanswered (nothing is answered on it until `heal`), and bytes that were in the relay already still
arrive.

Owns the relays' ports and one thread with an event loop. It must not know what the bytes mean.

Invariant: bytes leave in the order of their arrival, unchanged, and none of them twice.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, Self, TypeVar, cast

_Result = TypeVar("_Result")

_HOST: Final = "127.0.0.1"
_CALL_S_MAX: Final = 30.0


class Relays:
    """Names of nodes are any strings. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()  # not uvloop, which reads before it can be told to pause
        self._routes: dict[tuple[str, str, int], _Route] = {}
        self._cut: set[tuple[str, str]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relays", daemon=True)
        self._thread.start()

    def add(self, source: str, destination: str, target_port: int) -> int:
        """The port where `source` reaches `target_port` of `destination`."""
        return self._run(self._add(source, destination, target_port))

    def cut(self, source: str, destination: str) -> None:
        """What `source` sends no longer reaches `destination`. The other direction is not affected."""
        self._call(lambda: self._set(self._cut | {(source, destination)}))

    def heal(self, source: str | None = None, destination: str | None = None) -> None:
        """Ends this cut, or all of them."""
        if source is None or destination is None:
            self._call(lambda: self._set(set()))
        else:
            self._call(lambda: self._set(self._cut - {(source, destination)}))

    def break_connections(self, source: str, destination: str) -> None:
        """Closes all connections from `source` to `destination`."""

        def abort() -> None:
            for (from_node, to_node, _), route in self._routes.items():
                if (from_node, to_node) == (source, destination):
                    route.abort()

        self._call(abort)

    def is_cut(self, source: str, destination: str) -> bool:
        return (source, destination) in self._cut

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    async def _add(self, source: str, destination: str, target_port: int) -> int:
        route = _Route(self._loop, target_port)
        route.set_cut(forward=(source, destination) in self._cut, backward=(destination, source) in self._cut)
        port = await route.listen()
        self._routes[source, destination, target_port] = route
        return port

    def _set(self, cut: set[tuple[str, str]]) -> None:
        self._cut = cut
        for (source, destination, _), route in self._routes.items():
            route.set_cut(forward=(source, destination) in cut, backward=(destination, source) in cut)

    async def _close(self) -> None:
        for route in self._routes.values():
            route.close()
        # Transports close in the loop's next turn.
        await asyncio.sleep(0)

    def _call(self, function: Callable[[], None]) -> None:
        async def call() -> None:
            function()

        self._run(call())

    def _run(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_CALL_S_MAX)


class _Route:
    """The relay of one ordered pair: `forward` is from the node that connects to the one that listens."""

    def __init__(self, loop: asyncio.AbstractEventLoop, target_port: int) -> None:
        self._loop = loop
        self._target_port = target_port
        self._server: asyncio.Server | None = None
        self._connecting: set[asyncio.Task[None]] = set()
        self.links: set[_Link] = set()
        self.forward_cut = False
        self.backward_cut = False

    async def listen(self) -> int:
        self._server = await self._loop.create_server(lambda: _Link(self).near, _HOST, 0)
        return int(self._server.sockets[0].getsockname()[1])

    def set_cut(self, *, forward: bool, backward: bool) -> None:
        self.forward_cut = forward
        self.backward_cut = backward
        for link in list(self.links):
            link.update()

    def connect(self, link: _Link) -> None:
        task = self._loop.create_task(self._connect(link))
        self._connecting.add(task)
        task.add_done_callback(self._connecting.discard)

    async def _connect(self, link: _Link) -> None:
        try:
            await self._loop.create_connection(lambda: link.far, _HOST, self._target_port)
        except OSError:
            link.abort()

    def abort(self) -> None:
        for link in list(self.links):
            link.abort()

    def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._connecting:
            task.cancel()
        self.abort()


class _Link:
    """Two connections that are one for the nodes: `near` is the one that was accepted, `far` leads to the target."""

    def __init__(self, route: _Route) -> None:
        self._route = route
        self._asked = False
        self._is_over = False
        self.near = _End(self)
        self.far = _End(self)
        route.links.add(self)

    def update(self) -> None:
        """Connects, reads and ends as far as the cuts allow it."""
        route = self._route
        if not self._asked:
            if not (route.forward_cut or route.backward_cut) and self.near.transport is not None:
                self._asked = True
                route.connect(self)
            return
        if self.far.transport is None:
            return
        if self._is_over:
            self.abort()
            return
        self.near.set_reading(not route.forward_cut and not self.far.is_full)
        self.far.set_reading(not route.backward_cut and not self.near.is_full)

    def received(self, end: _End, data: bytes) -> None:
        other = self.far if end is self.near else self.near
        if other.transport is not None:
            other.transport.write(data)

    def ended(self, end: _End) -> None:
        self._is_over = True
        self._route.links.discard(self)
        other = self.far if end is self.near else self.near
        if other.transport is not None:
            other.transport.close()  # after what was written to it

    def abort(self) -> None:
        self._is_over = True
        self._route.links.discard(self)
        for end in (self.near, self.far):
            if end.transport is not None:
                end.transport.abort()


class _End(asyncio.Protocol):
    def __init__(self, link: _Link) -> None:
        self._link = link
        self._is_reading = True
        self.is_full = False
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        # Nothing is read before the other end is connected: there would be no place for it.
        self.set_reading(False)
        self._link.update()

    def set_reading(self, wanted: bool) -> None:
        transport = self.transport
        if transport is None or wanted is self._is_reading or transport.is_closing():
            return
        self._is_reading = wanted
        if wanted:
            transport.resume_reading()
        else:
            transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        self._link.received(self, data)

    def pause_writing(self) -> None:
        self.is_full = True
        self._link.update()

    def resume_writing(self) -> None:
        self.is_full = False
        self._link.update()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, _error: Exception | None) -> None:
        self._link.ended(self)

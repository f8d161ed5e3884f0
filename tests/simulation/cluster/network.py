"""A network between simulated processes: connections with delays, resets, and links that are cut in one direction.

A connection delivers its bytes in order, as TCP does; messages of different connections overtake each other. On a link
that is cut nothing arrives: bytes wait and arrive after the link is healed, unless the connection is reset. The end of
a process resets its connections; its peers learn of that where the link lets them.

Must never know: what is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final

from tests.simulation.cluster.world import ProcessLoop, World

_SYN_RETRIES_S: Final = (1.0, 2.0, 4.0, 8.0, 16.0)


class Link:
    """One direction between two hosts."""

    __slots__ = ("held", "is_cut", "slowness_s")

    def __init__(self) -> None:
        self.is_cut = False
        self.slowness_s = 0.0
        self.held: list[Callable[[], object]] = []


class Network:
    """Hosts are names; each process is on one."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._links: dict[tuple[str, str], Link] = {}
        self._listeners: dict[tuple[str, int], Listener] = {}
        self._connections: dict[End, None] = {}

    def join(self, loop: ProcessLoop, host: str) -> None:
        """Gives a process its connections."""

        async def connect(protocol_factory: Callable[[], Any], to: str, port: int) -> tuple[End, Any]:
            return await self._connect(loop, host, protocol_factory, to, port)

        def listen(protocol_factory: Callable[[], Any], sock: ListeningSocket) -> Listener:
            listener = Listener(self, loop, protocol_factory, sock)
            self._listeners[sock.host, sock.port] = listener
            return listener

        loop.connect, loop.listen = connect, listen

    def link(self, source: str, target: str) -> Link:
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link()
        return link

    # What a nemesis does

    def cut(self, source: str, target: str) -> None:
        self.link(source, target).is_cut = True

    def slow(self, source: str, target: str, slowness_s: float) -> None:
        self.link(source, target).slowness_s = slowness_s

    def heal(self) -> None:
        """All links work again. What was held back arrives now."""
        for link in self._links.values():
            link.is_cut, link.slowness_s = False, 0.0
            held, link.held = link.held, []
            for send in held:
                send()

    def reset(self, host: str, peer: str) -> None:
        """All connections between two hosts end."""
        for end in tuple(self._connections):
            if {end.host, end.peer_host} == {host, peer}:
                end.lose(ConnectionResetError("connection reset"))

    def host_died(self, loop: ProcessLoop) -> None:
        """The process ended: the system resets its connections, and refuses others."""
        self._listeners = {place: each for place, each in self._listeners.items() if each.loop is not loop}
        for end in tuple(self._connections):
            if end.loop is loop:
                end.abort()

    # What connections ask

    def delay_s(self, link: Link) -> float:
        random = self.world.random
        delay_s = random.uniform(0.000_05, 0.001)
        if random.random() < 0.02:
            delay_s += random.uniform(0, 0.05)
        return delay_s + link.slowness_s * random.random()

    def forget(self, end: End) -> None:
        self._connections.pop(end, None)

    def close_listener(self, listener: Listener) -> None:
        self._listeners = {place: each for place, each in self._listeners.items() if each is not listener}

    async def _connect(
        self, loop: ProcessLoop, host: str, protocol_factory: Callable[[], Any], to: str, port: int
    ) -> tuple[End, Any]:
        there, back = self.link(host, to), self.link(to, host)
        for retry_s in _SYN_RETRIES_S:
            await _sleep(loop, self.delay_s(there) + self.delay_s(back))
            if not there.is_cut and not back.is_cut:
                break
            await _sleep(loop, retry_s)
        else:
            raise TimeoutError(f"{to}:{port} does not answer")
        listener = self._listeners.get((to, port))
        if listener is None or listener.loop.is_dead:
            raise ConnectionRefusedError(f"{to}:{port} refuses connections")
        ours, theirs = End(self, loop, host, to), End(self, listener.loop, to, host)
        ours.peer, theirs.peer = theirs, ours
        self._connections[ours] = self._connections[theirs] = None
        listener.loop.call_soon(theirs.begin, listener.protocol_factory)
        protocol = protocol_factory()
        ours.begin(lambda: protocol)
        return ours, protocol


class ListeningSocket:
    """In the place of a bound socket."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def close(self) -> None:
        """The listener is closed by the server."""


class Listener:
    def __init__(
        self, network: Network, loop: ProcessLoop, protocol_factory: Callable[[], Any], sock: ListeningSocket
    ) -> None:
        self._network = network
        self.loop = loop
        self.protocol_factory = protocol_factory
        self.sockets = (sock,)

    def close(self) -> None:
        self._network.close_listener(self)

    async def wait_closed(self) -> None:
        """It is closed at once."""


class End(asyncio.Transport):
    """One end of a connection: the transport of its process's protocol, and the socket of its sender."""

    peer: End

    def __init__(self, network: Network, loop: ProcessLoop, host: str, peer_host: str) -> None:
        super().__init__({"socket": self, "peername": (peer_host, 1), "sockname": (host, 1)})
        self.loop = loop
        self.host = host
        self.peer_host = peer_host
        self._network = network
        self._link = network.link(host, peer_host)
        self._protocol: Any = None
        self._is_reading = True
        self._is_closing = False
        self._is_lost = False
        self._unread: list[bytes] = []
        self._arrival_s = 0.0

    def begin(self, protocol_factory: Callable[[], Any]) -> None:
        if self._is_lost:
            return
        self._protocol = protocol_factory()
        self._protocol.connection_made(self)
        self.resume_reading()

    # The transport

    def get_protocol(self) -> Any:
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing or self.loop.is_dead:
            return
        self._send(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(bytes(each) for each in list_of_data))

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """What is written leaves at once."""

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        unread, self._unread = self._unread, []
        for content in unread:
            self._arrived(content)

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        self.abort()

    def abort(self) -> None:
        """Closes this end now, and the other one when it hears of it."""
        if self._is_closing:
            return
        self._is_closing = True
        self._transmit(lambda: self.peer.lose(None))
        if self.loop.is_dead:
            self.lose(None)
        else:
            self.loop.call_soon(self.lose, None)

    # The network's side

    def lose(self, error: Exception | None) -> None:
        if self._is_lost:
            return
        self._is_lost = self._is_closing = True
        self._network.forget(self)
        if self._protocol is not None and not self.loop.is_dead:
            self.loop.call_soon(self._protocol.connection_lost, error)

    def _send(self, content: bytes) -> None:
        if self._link.is_cut:
            self._link.held.append(lambda: self._send_on(content))
            return
        self._transmit(lambda: self.peer._arrived(content))

    def _send_on(self, content: bytes) -> None:
        """What a closed connection had not sent is dropped. The system goes on to send for a process that died."""
        if not self._is_closing or self.loop.is_dead:
            self._send(content)

    def _transmit(self, arrive: Callable[[], None]) -> None:
        if self._link.is_cut:
            self._link.held.append(lambda: self._transmit(arrive))
            return
        world = self._network.world
        self._arrival_s = max(self._arrival_s, world.now_s + self._network.delay_s(self._link))
        self.peer.loop.call_in_world(self._arrival_s, arrive)

    def _arrived(self, content: bytes) -> None:
        protocol = self._protocol
        if self._is_lost:
            return
        if protocol is None or not self._is_reading or self._unread:
            self._unread.append(content)
            return
        if not isinstance(protocol, asyncio.BufferedProtocol):
            protocol.data_received(content)
            return
        position = 0
        while position < len(content) and not self._is_closing:
            buffer: Any = protocol.get_buffer(len(content) - position)
            count = min(len(buffer), len(content) - position)
            buffer[:count] = content[position : position + count]
            position += count
            protocol.buffer_updated(count)
            if not self.is_reading() and position < len(content):
                self._unread.append(content[position:])
                return


class NetworkSender:
    """The way out of a broker's connection, in the place of a socket's sender."""

    queued_bytes = 0
    is_idle = True

    def __init__(self, transport_socket: Any, *callbacks: object) -> None:
        self._end: End = transport_socket

    def send(self, chunks: list[Any]) -> None:
        self._end.write(
            b"".join(chunk if isinstance(chunk, bytes | bytearray | memoryview) else chunk.read() for chunk in chunks)
        )

    def close(self) -> None:
        """Nothing is held."""


async def _sleep(loop: ProcessLoop, seconds: float) -> None:
    woken = loop.create_future()
    loop.call_later(seconds, _wake, woken)
    await woken


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)

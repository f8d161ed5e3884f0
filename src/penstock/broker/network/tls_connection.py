"""A connection whose bytes are encrypted: TLS between the socket and the frames.

The event loop's transport reads ciphertext into one buffer that all TLS connections share: nothing runs between its
filling and its use. Plaintext is decrypted straight into the connection's frames. Writing takes a bounded piece of the
queue at a time, encrypts it, and takes the next when the socket has accepted it (ADR 0015).

Invariant: no request is handled before the handshake is complete, and nothing but handshakes is sent before.
Invariant: what is encrypted and not yet sent is bounded by `limits.TLS_WRITE_BYTES_MAX`, however large a response is.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING

from penstock.broker.network.connection import Connection
from penstock.broker.network.sender import Memory, ResponseSender, Sender, is_memory
from penstock.broker.network.tls import RECORD_BYTES_MAX, ListenerTls, TlsSession
from penstock.core import limits
from penstock.security.principals import NoMatchingRule

if TYPE_CHECKING:
    from penstock.broker.metrics import ListenerMetrics
    from penstock.broker.network.server import Server
    from penstock.broker.node import Node
    from penstock.security.authentication import Authentication


class HandshakeSlots:
    """The handshakes that are under way. A connection without a slot is not read from.

    A connection asks for a slot when it has sent its first record: one that sends less takes none. While others wait,
    the oldest handshakes are ended to make room: a stalled handshake does not block other clients.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._in_flight: dict[TlsConnection, float] = {}  # with the time of its begin, the oldest first
        self._waiting: deque[TlsConnection] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def enter(self, connection: TlsConnection) -> bool:
        """Whether the handshake may go on now; otherwise it is called when it may, or closed."""
        if connection in self._in_flight:
            return True
        if len(self._in_flight) < limits.TLS_HANDSHAKES_MAX:
            self._in_flight[connection] = self._loop.time()
            return True
        if len(self._waiting) < limits.TLS_HANDSHAKES_WAITING_MAX:
            self._waiting.append(connection)
            connection.wait_for_handshake()
            self._make_room()
        else:
            connection.close("too many TLS handshakes at a time")
        return False

    def leave(self, connection: TlsConnection) -> None:
        """The handshake ended, or the connection did."""
        if self._in_flight.pop(connection, None) is None:
            if connection in self._waiting:
                self._waiting.remove(connection)
            return
        while self._waiting:
            following = self._waiting.popleft()
            if not following.is_closing:
                self._in_flight[following] = self._loop.time()
                self._loop.call_soon(following.go_on_with_handshake)
                break

    def _make_room(self) -> None:
        """Ends as many handshakes that take too long as others wait; looks again when the next one does."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        patience_s = limits.TLS_HANDSHAKE_TIMEOUT_WHILE_OTHERS_WAIT_S
        now_s = self._loop.time()
        waiting = len(self._waiting)
        for connection, begun_s in tuple(self._in_flight.items()):
            if not waiting:
                return
            if begun_s + patience_s > now_s:
                self._timer = self._loop.call_at(begun_s + patience_s, self._make_room)
                return
            waiting -= 1
            connection.close("the TLS handshake took too long, and others wait")
        if waiting:
            self._timer = self._loop.call_later(patience_s, self._make_room)


class TlsConnection(Connection):
    def __init__(
        self,
        server: Server,
        node: Node,
        listener_name: str,
        traffic: ListenerMetrics,
        authentication: Authentication | None,
        tls: ListenerTls,
        slots: HandshakeSlots,
        ciphertext: memoryview,
    ) -> None:
        super().__init__(server, node, listener_name, traffic, authentication)
        self._session = TlsSession(tls.context)
        self._mapping = tls.mapping
        self._slots = slots
        self._ciphertext = ciphertext
        self._timer: asyncio.TimerHandle | None = None
        self._low_water_bytes = 1  # of the socket: it is read from when it holds as many

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._socket: socket.socket = transport.get_extra_info("socket")
        # A connection above a limit, or of an address that opens them too often (KIP-612), costs no arithmetic.
        if not self._closing and not self._reading_paused:
            self._timer = self._node.loop.call_later(limits.TLS_HANDSHAKE_TIMEOUT_S, self._handshake_took_too_long)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_handshake()
        super().connection_lost(exc)

    def _new_sender(self, transport_socket: socket.socket) -> ResponseSender:
        return TlsSender(transport_socket, self._node.loop, self._drained, self.close, self._session)

    # The handshake

    @property
    def is_closing(self) -> bool:
        return self._closing

    def wait_for_handshake(self) -> None:
        self._transport.pause_reading()

    def go_on_with_handshake(self) -> None:
        """With what has arrived before the connection had to wait."""
        if self._closing:
            return
        self._transport.resume_reading()
        if self._shake_hands():
            self._handle_plaintext()

    def _handshake_took_too_long(self) -> None:
        self.close("the TLS handshake took too long")

    def _end_handshake(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._slots.leave(self)

    def _shake_hands(self) -> bool:
        try:
            complete = self._session.shake_hands()
        except ssl.SSLError as error:
            self._flush()  # an alert tells the client what is wrong
            self._traffic.failed_authentication.value += 1
            self.close(f"the TLS handshake failed: {error.reason or error}")
            return False
        self._flush()
        if complete:
            self._end_handshake()
            return self._identify()
        return False

    def _identify(self) -> bool:
        """The principal of a client certificate, where no SASL follows."""
        name = self._session.client_name
        if name is None or self.authentication is not None:
            return True
        try:
            user = self._mapping.user_of(name)
        except NoMatchingRule as error:
            self._traffic.failed_authentication.value += 1
            self.close(str(error))
            return False
        self.access = self._node.access_of(f"User:{user}", self.access.client.host)
        self._traffic.authenticated.value += 1
        return True

    # Reading

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._ciphertext

    def buffer_updated(self, nbytes: int) -> None:
        self._traffic.bytes_in.value += nbytes
        if self._failure is not None or self._closing:
            return
        self._session.receive(self._ciphertext[:nbytes])
        self.last_active = self._node.loop.time()
        self._received_s = perf_counter()
        session = self._session
        if session.is_established or (session.has_begun and self._slots.enter(self) and self._shake_hands()):
            self._handle_plaintext()

    def _handle_plaintext(self) -> None:
        """All plaintext that there is, unless a pause comes between: the rest stays encrypted until it ends."""
        try:
            is_exhausted = False
            while not is_exhausted and not self._closing and not self._reading_paused and self._failure is None:
                room = self._frames.get_buffer()
                count = self._session.read_into(room)
                is_exhausted = count < len(room)
                self._frames.advance(count)
                # A large request comes in many small reads, and there is nothing to do before its last one.
                if self._frames.has_frame or self._memory is not None:
                    self._handle_frames()
            if not self._closing:
                self._await_bytes(self._frames.missing_bytes if is_exhausted else 0)
            if self._session.is_ended:
                self._session.end()
            self._flush()  # TLS may have something to say of its own
            if self._session.is_ended:
                self.close()
        except ssl.SSLError as error:
            self.close(f"TLS: {error.reason or error}")

    def _await_bytes(self, missing_bytes: int) -> None:
        """In the middle of a large request, the socket is read from when it holds a good part of the rest.

        Some clients write a request as hundreds of small TLS records, and every read costs as much as several of them.
        Part of what is missing may have arrived already, as a record that is not complete.
        """
        low_water_bytes = max(1, min(missing_bytes - RECORD_BYTES_MAX, limits.TLS_READ_BYTES // 2))
        if low_water_bytes != self._low_water_bytes:
            self._low_water_bytes = low_water_bytes
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, low_water_bytes)

    def _handle_arrived(self) -> None:
        self._handle_frames()
        if not self._reading_paused and not self._closing:
            self._handle_plaintext()

    def _flush(self) -> None:
        if not self._closing:
            sender = self._sender
            assert isinstance(sender, TlsSender)
            sender.flush()


class TlsSender(Sender):
    """Encrypts a bounded piece at a time; the next one when the socket has accepted it."""

    __slots__ = ("_ciphertext", "_session")

    def __init__(
        self,
        transport_socket: socket.socket,
        loop: asyncio.AbstractEventLoop,
        on_drained: Callable[[], None],
        on_lost: Callable[[], None],
        session: TlsSession,
    ) -> None:
        super().__init__(transport_socket, loop, on_drained, on_lost)
        self._session = session
        self._ciphertext = memoryview(b"")

    @property
    def is_idle(self) -> bool:
        return not self._queue and not self._ciphertext

    @property
    def encrypted_bytes(self) -> int:
        """Of ciphertext that the socket has not accepted yet."""
        return len(self._ciphertext)

    def flush(self) -> None:
        """Sends what TLS itself wants to say."""
        if not self._closed and not self._waiting:
            self._move()

    def close(self) -> None:
        super().close()
        self._ciphertext = memoryview(b"")

    def _send_now(self, data: Memory) -> None:
        self._queue.append(data)
        self.queued_bytes += len(data)
        if not self._waiting:
            self._move()

    def _pump(self) -> None:
        if self._move():
            self._on_drained()

    def _move(self) -> bool:
        """Until the queue or the socket is exhausted. True when everything has been sent."""
        try:
            while True:
                while self._ciphertext:
                    self._ciphertext = self._ciphertext[self._socket.send(self._ciphertext) :]
                self._ciphertext = memoryview(self._session.take_outgoing())
                if self._ciphertext:
                    continue
                if not self._queue:
                    break
                self._session.encrypt(self._next_piece())
        except BlockingIOError:
            self._wait_for_room()
            return False
        except (OSError, ssl.SSLError):
            self._on_lost()
            return False
        if self._waiting:
            self._loop.remove_writer(self._socket.fileno())
            self._waiting = False
        return True

    def _next_piece(self) -> Memory:
        """From the front of the queue, memory and files joined, up to the limit."""
        pieces: list[Memory] = []
        room = limits.TLS_WRITE_BYTES_MAX
        while room and self._queue:
            first = self._queue[0]
            count = min(len(first) - self._sent, room)
            if is_memory(first):
                pieces.append(memoryview(first)[self._sent : self._sent + count])
            else:
                piece = os.pread(first.file.fd, count, first.position + self._sent)
                if not piece:
                    raise OSError("a log file is shorter than the slice that is being sent")
                count = len(piece)
                pieces.append(piece)
            room -= count
            self._sent += count
            if self._sent == len(first):
                self._queue.popleft()
                self._sent = 0
                if is_memory(first):
                    self.queued_bytes -= len(first)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

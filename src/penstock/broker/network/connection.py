"""One client's connection: frames in, responses out, in order.

All whole frames of one read are handled together: their appends are written by one system call a partition, and their
responses leave in one write. A request whose answer is not there yet (a parked fetch, a produce that waits for its
fsync) holds its place in the line; what was asked later is handled at once and answered behind it.

Invariant: responses leave in the order of their requests.
Invariant: a peer that does not read its answers, or asks without end, is not read from any more until it has caught up;
one that exceeds a quota is not read from for as long as it was told.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, cast

from penstock.broker.deferred import Deferred
from penstock.broker.network.answers import MeteredSlot, Slot, joined
from penstock.broker.request_context import RequestContext
from penstock.broker.router import BY_API_KEY, Route
from penstock.core import limits
from penstock.core.acls import ANONYMOUS
from penstock.core.errors import ProtocolError
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.framing import SIZE_BYTES, FrameBuffer
from penstock.protocol.headers import API_VERSIONS_KEY, read_request_header
from penstock.security.authentication import UnauthenticatedRequest

if TYPE_CHECKING:
    import socket

    from penstock.broker.access import Access
    from penstock.broker.client_quotas import Usage
    from penstock.broker.metrics import ListenerMetrics
    from penstock.broker.network.request_memory import RequestMemory
    from penstock.broker.network.sender import ResponseSender
    from penstock.broker.network.server import Server
    from penstock.broker.node import Node
    from penstock.security.authentication import Authentication

logger = logging.getLogger(__name__)

_NO_API: Final = -1
_PRODUCE_KEY: Final = 0


class Connection(asyncio.BufferedProtocol):
    """Speaks the Kafka protocol with one peer; knows nothing of what the APIs mean."""

    def __init__(
        self,
        server: Server,
        node: Node,
        listener_name: str,
        traffic: ListenerMetrics,
        authentication: Authentication | None = None,
    ) -> None:
        self._server = server
        self._node = node
        self._traffic = traffic
        self._requests = node.request_metrics
        self._request_bytes = node.request_metrics.request_bytes
        self._response_bytes = node.request_metrics.response_bytes
        self._counted_key = _NO_API  # of the requests from `_counted_position` on, whose bytes are still to be counted
        self._counted_position = 0
        self.listener_name = listener_name
        self.authentication = authentication
        # What every request has to pass; None once there is nothing left to decide, so that it costs one comparison.
        self._gate = authentication
        config = node.config
        largest = config.socket_request_max_bytes
        self._frames = FrameBuffer(
            largest if authentication is None else min(largest, config.sasl_server_max_receive_size),
            pool=server.receive_buffers,
        )
        self._line: deque[Slot] = deque()
        self._outgoing: list[Any] = []
        self._handling = False
        self._reading_paused = False
        self._resuming = False  # paused still, but reading on has been put on the loop's list
        self._memory = server.request_memory
        self._reserved_bytes = 0  # for a request that has not arrived completely
        self._awaits_memory = False
        self._unmute: asyncio.TimerHandle | None = None  # while the client has to wait, because it exceeded a quota
        self._barrier: Deferred | None = None  # the request that later ones wait for
        self._closing = False
        self._failure: str | None = None  # why the connection ends once everything asked before is answered
        self._hang_up_delay_ms = 0  # between that and the end, for a client that has not authenticated
        self.peer = "?"
        self.host = "?"
        self.last_active = 0.0
        # Not the loop's time: uvloop's counts whole milliseconds, which is longer than most requests take.
        self._received_s = 0.0
        self.access: Access = node.access_of(ANONYMOUS, "")

    # The event loop's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own is none by inheritance
        transport_socket = transport.get_extra_info("socket")
        peer = transport.get_extra_info("peername")
        if peer:
            self.host = str(peer[0])
            self.peer = f"{peer[0]}:{peer[1]}"
            self.access = self._node.access_of(ANONYMOUS, self.host)
        self._sender = self._new_sender(transport_socket)
        self.last_active = self._node.loop.time()
        self._traffic.accepted.value += 1
        self._traffic.open.value += 1
        self._server.opened(self)

    def _new_sender(self, transport_socket: socket.socket) -> ResponseSender:
        return self._server.new_sender(transport_socket, self._node.loop, self._drained, self.close)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._frames.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        self._traffic.bytes_in.value += nbytes
        if self._failure is not None:
            return  # nothing that comes behind a failure is looked at; reading on shows when the peer goes away
        self.last_active = self._node.loop.time()
        self._received_s = perf_counter()
        self._frames.advance(nbytes)
        self._handle_frames()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._sender.close()
        if self._unmute is not None:
            self._unmute.cancel()
        if self._memory is not None:
            self._memory.abandon(self)
            self._release_memory()
        for slot in self._line:
            if isinstance(slot.answer, Deferred):
                slot.answer.abandon()
        self._line.clear()
        self._frames.release()
        self._traffic.closed.value += 1
        self._traffic.open.value -= 1
        self._server.closed(self)

    def close(self, reason: str | None = None) -> None:
        """Hangs up. A reason means that the peer is at fault, and is logged."""
        if self._closing:
            return
        if reason is not None:
            logger.info("closing the connection of %s: %s", self.peer, reason)
        self._closing = True
        self._sender.close()
        self._transport.abort()

    def close_later(self, after_ms: int, reason: str) -> None:
        """Not read from until then, so that a client that connects again at once has to wait (KIP-306, KIP-612)."""
        self._pause_reading()
        if self._unmute is not None:
            self._unmute.cancel()
        self._unmute = self._node.loop.call_later(after_ms / 1000, self.close, reason)

    # Requests

    def _handle_frames(self) -> None:
        """Every whole frame that has arrived, then their appends, then their answers."""
        self._handling = True
        self._counted_position = self._frames.position
        try:
            while not self._closing and not self._reading_paused and self._failure is None:
                frame = self._frames.next_frame()
                if frame is None:
                    break
                self._handle(frame)
                if len(self._line) >= limits.PIPELINED_REQUESTS_MAX:
                    self._pause_reading()
        except UnauthenticatedRequest as error:
            # The client has to wait before it can try again, as after a wrong password.
            self._hang_up_delay_ms = self._node.config.connection_failed_authentication_delay_ms
            self.hang_up_after_answer(str(error))
        except ProtocolError as error:
            self._failure = str(error)
        finally:
            # Even when the peer broke the protocol: what it sent before that was in order, and others may have staged.
            self._node.appends.write()
            self._handling = False
        if self._request_bytes is not None:
            self._count_requests_until(self._frames.position, _NO_API)
        if self._failure is not None:
            self._frames.discard()
        if self._memory is not None:
            self._account_for_memory(self._memory)
        self._send_answers()

    def _handle(self, frame: memoryview) -> None:
        api_key, version, correlation_id, client_id, position = read_request_header(frame, 0, len(frame))
        route = BY_API_KEY.get(api_key)
        if route is None:
            raise ProtocolError(f"API {api_key} is not served here")
        if self._request_bytes is not None and api_key != self._counted_key:
            self._count_requests_until(self._frames.position - len(frame) - SIZE_BYTES, api_key)
        if self._gate is not None:
            self._gate.check(api_key, route.name, self._node.clock.monotonic_ms())
        if api_key == API_VERSIONS_KEY and not route.min_version <= version <= route.max_version:
            from penstock.broker.handlers.api_versions import unsupported_version

            self._answer(route, 0, correlation_id, unsupported_version())
            return
        request = route.read(version, frame, position)
        context = RequestContext(self._node, version, client_id, self)
        if api_key != _PRODUCE_KEY:
            # On one connection requests take effect in order: a request behind a produce finds it written.
            self._node.appends.write()
            if self._failure is not None:
                return  # one of them failed and cannot say so: this request comes after the end
        quotas = self._node.quotas
        if quotas is not None:
            started_s = perf_counter()
        try:
            answer = route.handle(request, context)
        except ProtocolError:
            raise
        except Exception:
            # A bug of ours must not take the broker's other clients with it.
            logger.exception("%s version %d from %s failed", route.name, version, self.peer)
            answer = route.failure(ErrorCode.UNKNOWN_SERVER_ERROR)
            if answer is None:
                raise ProtocolError(f"{route.name} failed, and has no way to say so") from None
        if quotas is not None:
            usage = quotas.usage(self.access.client.user, client_id or "", len(frame), perf_counter() - started_s)
            self._answer_metered(route, version, correlation_id, answer, usage)
        elif answer is not None:
            self._answer(route, version, correlation_id, answer)
        else:
            self._requests.answered(route, 0.0, 1)

    def _count_requests_until(self, position: int, next_key: int) -> None:
        """Most reads bring requests of one API: their bytes are counted together, at the end or when another comes."""
        assert self._request_bytes is not None
        if self._counted_key != _NO_API:
            self._request_bytes[self._counted_key] += position - self._counted_position
        self._counted_key, self._counted_position = next_key, position

    def _answer_metered(self, route: Route, version: int, correlation_id: int, answer: Any, usage: Usage) -> None:
        if answer is not None:
            self._answer(route, version, correlation_id, answer, usage)
        else:
            self._requests.answered(route, 0.0, 1)
            self._charge(usage, route, None)

    def _answer(self, route: Route, version: int, correlation_id: int, answer: Any, usage: Usage | None = None) -> None:
        if isinstance(answer, Deferred):
            answer.listen(self._deferred_completed)
            if answer.is_barrier and not answer.done:
                self._barrier = answer
                self._pause_reading()
        elif not self._line:
            if usage is not None:
                self._charge(usage, route, answer)
            response = route.write(version, correlation_id, answer)
            self._outgoing += response
            self._requests.answered(route, perf_counter() - self._received_s, 1)
            if self._response_bytes is not None:
                self._response_bytes[route.api_key] += sum(map(len, response))
            if not route.counts_own_errors:
                self._count_errors(route, answer)
            return
        if usage is None:
            self._line.append(Slot(route, version, correlation_id, answer, self._received_s))
        else:
            self._line.append(MeteredSlot(route, version, correlation_id, answer, self._received_s, usage))

    # Answers

    def _deferred_completed(self) -> None:
        if not self._handling:
            self._send_answers()

    def _send_answers(self) -> None:
        """Sends what stands completed at the head of the line."""
        line = self._line
        outgoing = self._outgoing
        # Requests of one API that came in by one read are counted together.
        route: Route | None = None
        received_s = 0.0
        answered = 0
        counted = len(outgoing)
        sizes = self._response_bytes
        while line:
            slot = line[0]
            answer = slot.answer
            if isinstance(answer, Deferred):
                if not answer.done:
                    break
                answer = answer.response
            line.popleft()
            if slot.route is not route or slot.received_s != received_s:
                if route is not None:
                    self._requests.answered(route, perf_counter() - received_s, answered)
                    if sizes is not None:
                        sizes[route.api_key] += sum(map(len, outgoing[counted:]))
                        counted = len(outgoing)
                route, received_s, answered = slot.route, slot.received_s, 0
            answered += 1
            if slot.__class__ is MeteredSlot:
                self._charge(slot.usage, route, answer)
            outgoing += route.write(slot.version, slot.correlation_id, answer)
            if not route.counts_own_errors:
                self._count_errors(route, answer)
        if route is not None:
            self._requests.answered(route, perf_counter() - received_s, answered)
            if sizes is not None and counted:
                sizes[route.api_key] += sum(map(len, outgoing[counted:]))
        if self._closing:
            return
        if outgoing and not self._send(outgoing, None if counted else route):
            return
        if self._failure is not None:
            self._close_when_answered()
        elif not outgoing:
            return
        elif self._sender.queued_bytes > limits.UNSENT_RESPONSE_BYTES_MAX:
            self._pause_reading()
        elif self._reading_paused:
            self._resume_reading()

    def _send(self, outgoing: list[Any], route: Route | None) -> bool:
        """`route` is that of all answers, if it is one and their sizes are still to be counted."""
        self._outgoing = []
        try:
            chunks = joined(outgoing)
            size = len(chunks[0]) if len(chunks) == 1 else sum(map(len, chunks))
            self._traffic.bytes_out.value += size
            if self._response_bytes is not None and route is not None:
                self._response_bytes[route.api_key] += size
            self._sender.send(chunks)
        except OSError as error:
            self.close(f"records cannot be read: {error.strerror}")
            return False
        return True

    def _close_when_answered(self) -> None:
        """After the answers to all earlier requests: a client repeats a produce whose acknowledgement it never got."""
        if self._line or not self._sender.is_idle:
            return
        assert self._failure is not None
        if self._hang_up_delay_ms:
            self.close_later(self._hang_up_delay_ms, self._failure)
        else:
            self.close(self._failure)

    def _count_errors(self, route: Route, answer: Any) -> None:
        for code in route.errors_in(answer):
            self._requests.failed(route.name, code)

    # Back-pressure

    def _pause_reading(self) -> None:
        if not self._reading_paused and not self._closing:
            self._reading_paused = True
            if self._transport.is_reading():
                self._transport.pause_reading()

    def _charge(self, usage: Usage, route: Route, answer: Any) -> None:
        """Counts an answer against the client's quotas. A client that exceeds one is told for how long it is muted."""
        quotas = self._node.quotas
        throttle_ms = 0 if quotas is None else quotas.charge(usage, route.api_key, answer)
        told = getattr(answer, "throttle_time_ms", None)
        if told is not None:
            # A handler that refused changes of the cluster has told the client to wait already.
            throttle_ms = answer.throttle_time_ms = max(throttle_ms, told)
        if throttle_ms:
            self._requests.throttled(route, throttle_ms)
            self._mute(throttle_ms)

    def _mute(self, throttle_ms: int) -> None:
        """Nothing more is read or handled for this long; answers still leave (KIP-219)."""
        until_s = self._node.loop.time() + throttle_ms / 1000
        if self._unmute is not None:
            if self._unmute.when() >= until_s:
                return
            self._unmute.cancel()
        self._unmute = self._node.loop.call_at(until_s, self._speak_again)
        self._pause_reading()

    def _speak_again(self) -> None:
        self._unmute = None
        self.last_active = self._node.loop.time()
        if self._reading_paused and not self._closing:
            self._resume_reading()

    def _account_for_memory(self, memory: RequestMemory) -> None:
        """Reads on with an incomplete request only while there is memory for all of it."""
        if self._awaits_memory or self._closing:
            return
        wanted_bytes = self._frames.incomplete_bytes
        if wanted_bytes == self._reserved_bytes:
            return
        self._release_memory()
        if wanted_bytes:
            self._reserved_bytes = wanted_bytes
            if not memory.reserve(self, wanted_bytes):
                self._awaits_memory = True
                self._pause_reading()

    def _release_memory(self) -> None:
        released_bytes, self._reserved_bytes = self._reserved_bytes, 0
        if released_bytes and not self._awaits_memory and self._memory is not None:
            self._memory.release(released_bytes)

    def memory_reserved(self) -> None:
        self._awaits_memory = False
        if self._reading_paused and not self._closing:
            self._resume_reading()

    def _resume_reading(self) -> None:
        if self._unmute is not None or self._awaits_memory:
            return
        if self._barrier is not None and not self._barrier.done:
            return
        if len(self._line) >= limits.PIPELINED_REQUESTS_MAX:
            return
        if self._sender.queued_bytes > limits.UNSENT_RESPONSE_BYTES_MAX:
            return
        if not self._resuming:
            # Not from inside a send, so that the stack stays flat.
            self._resuming = True
            self._node.loop.call_soon(self._read_on)

    def _read_on(self) -> None:
        """Frames that arrived before the pause come first; they may be reason enough for the next one."""
        self._resuming = False
        if self._unmute is not None or self._awaits_memory:
            return  # since it was put on the list; it will be there again
        self._reading_paused = False
        self._handle_arrived()
        if not self._reading_paused and not self._closing:
            self._transport.resume_reading()

    def _handle_arrived(self) -> None:
        """What was received before a pause and has not been handled yet."""
        self._handle_frames()

    def _drained(self) -> None:
        if self._failure is not None:
            self._close_when_answered()
        elif self._reading_paused:
            self._resume_reading()

    # Authentication

    def authenticated(self) -> None:
        assert self.authentication is not None
        user = self.authentication.user
        assert user is not None
        self.access = self._node.access_of(f"User:{user}", self.access.client.host)
        self._frames.allow(self._node.config.socket_request_max_bytes)
        self._traffic.authenticated.value += 1
        if self.authentication.is_settled:
            self._gate = None

    def hang_up_after_answer(self, reason: str) -> None:
        """The answer is on its way into the line, which `_close_when_answered` waits for."""
        self._traffic.failed_authentication.value += 1
        self._failure = reason

    def hang_up(self, reason: str) -> None:
        """Asked for by a handler; what was asked before that request is still answered."""
        self._failure = reason
        if not self._handling:
            self._close_when_answered()

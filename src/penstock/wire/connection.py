"""One connection to one broker on a blocking socket: TLS, versions, SASL, deadlines.

Owns the socket. `protocol/exchange.py` owns the bytes that go over it: encoding, correlation ids, responses in order.
It must never know what a request is for, and it never retries: any failure is `ConnectionLost`, and the caller decides
whether to ask again.

`send` returns a `Pending`; its `response()` reads from the socket until that response has arrived. Responses arrive in
the order of the requests, so those to earlier requests are read first and kept for their own `Pending`.

Invariants:
- After any failure the socket is closed and everything in flight is lost; no request gets another one's response.
- One thread at a time.
"""

from __future__ import annotations

import secrets
import socket
import ssl
import time
from collections import deque
from collections.abc import Generator, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from penstock.core.addresses import host_port_text
from penstock.core.errors import AccessDenied, ProtocolError
from penstock.core.software import software_version
from penstock.protocol.exchange import Chunk, Exchange, InFlightRequest, ReceiveBuffer, Step
from penstock.protocol.schema import Message
from penstock.security.sasl import client_messages
from penstock.wire.errors import ConnectionLost
from penstock.wire.settings import WireSettings

T = TypeVar("T")
# What one call of sendmsg takes; POSIX promises 16, Linux and macOS take 1024.
_CHUNKS_PER_CALL: Final = 512
# A broker ends a SASL session at its lifetime; a new connection replaces this one before that.
_SASL_LIFETIME_USED: Final = 0.85
_TIMEOUT_S_MIN: Final = 0.001  # 0 would make the socket non-blocking
_PROTOCOL_HINT: Final = "does security.protocol match its listener?"


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return host_port_text(self.host, self.port)


class Pending:
    """A request that was sent; `response()` waits for its response."""

    __slots__ = ("_connection", "_request")

    def __init__(self, connection: Connection, request: InFlightRequest) -> None:
        self._connection = connection
        self._request = request

    def response(self) -> Any:
        """`records` in the response are views of the buffer that it was read into."""
        return self._connection.response_to(self._request)


class Connection:
    """Connected, agreed on versions and authenticated when the constructor returns.

    Raises ConnectionLost when the broker does not answer; BrokerError (SASL_AUTHENTICATION_FAILED and the like) or
    ClientError when a retry would change nothing.
    """

    def __init__(self, address: Address, settings: WireSettings, tls: ssl.SSLContext | None) -> None:
        self.address = address
        self.last_used = time.monotonic()
        self._request_timeout_s = settings.seconds("request.timeout.ms")
        self._exchange = Exchange(str(address), settings.client_id)
        self._expires_at = float("inf")
        self._socket: socket.socket | None = self._connected(settings, tls)
        self._can_gather = tls is None
        try:
            self._negotiate_versions()
            if settings.sasl is not None:
                self._authenticate(settings)
        except BaseException:
            self.close()
            raise

    @property
    def features(self) -> dict[str, int]:
        """Finalized features of the cluster, by name."""
        return self._exchange.features

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    @property
    def is_expired(self) -> bool:
        """Whether the broker is about to end the SASL session."""
        return time.monotonic() >= self._expires_at

    def fileno(self) -> int:
        """For callers that wait for several connections at once."""
        if self._socket is None:
            raise ConnectionLost(f"the connection to {self.address} was lost")
        return self._socket.fileno()

    @property
    def in_flight(self) -> int:
        return self._exchange.in_flight

    def close(self) -> None:
        """Requests in flight are lost."""
        closing, self._socket = self._socket, None
        if closing is not None:
            closing.close()

    def version_for(self, request: type[Message], *, at_least: int = 0, at_most: int | None = None) -> int:
        """The newest version that broker, codec and caller have in common."""
        return self._exchange.version_for(request, at_least=at_least, at_most=at_most)

    def ask(self, request: Message, version: int, *, timeout_s: float | None = None) -> Any:
        return self.send(request, version, timeout_s=timeout_s).response()

    def send(
        self, request: Message, version: int, *, timeout_s: float | None = None, into: ReceiveBuffer | None = None
    ) -> Pending:
        """`timeout_s` is what the broker may take on top of `request.timeout.ms`, such as the wait of a long poll."""
        deadline = time.monotonic() + self._request_timeout_s + (timeout_s or 0)
        sent, chunks = self._exchange.send(request, version, deadline=deadline, into=into)
        self._transmit(chunks)
        return Pending(self, sent)

    def send_unanswered(self, request: Message, version: int) -> None:
        """A request that no response follows: Produce with acks=0."""
        self._transmit(self._exchange.send_unanswered(request, version))

    def response_to(self, request: InFlightRequest) -> Any:
        """Reads responses in their order until this one has arrived."""
        try:
            while not request.is_answered:
                self._receive()
            self.last_used = time.monotonic()
            return request.decode()
        except BaseException:
            self.close()
            raise

    def _receive(self) -> None:
        """Whatever one read brings, into the exchange's buffer."""
        sock, exchange = self._socket, self._exchange
        if sock is None or not exchange.in_flight:
            raise ConnectionLost(f"the connection to {self.address} was lost")
        remaining_s = exchange.deadline - time.monotonic()
        try:
            sock.settimeout(max(remaining_s, _TIMEOUT_S_MIN))
            count = sock.recv_into(exchange.get_buffer())
        except TimeoutError:
            raise ConnectionLost(f"{self.address} did not answer in time (request.timeout.ms)") from None
        except OSError as error:
            raise ConnectionLost(f"the connection to {self.address} was lost: {_reason(error)}") from error
        if not count:
            raise ConnectionLost(f"{self.address} closed the connection")
        try:
            answered = exchange.advance(count)
        except ProtocolError as error:
            raise ProtocolError(f"{error}; {_PROTOCOL_HINT}") from None
        if answered is None and remaining_s < 0:
            raise ConnectionLost(f"{self.address} did not answer in time (request.timeout.ms)")

    def _transmit(self, chunks: Sequence[Chunk]) -> None:
        sock = self._socket
        if sock is None:
            raise ConnectionLost(f"the connection to {self.address} was lost")
        try:
            sock.settimeout(self._request_timeout_s)
            if self._can_gather:
                _send_gathered(sock, chunks)
            else:
                sock.sendall(b"".join(chunks))
        except OSError as error:
            self.close()
            raise ConnectionLost(f"the connection to {self.address} was lost: {_reason(error)}") from error
        except BaseException:
            self.close()
            raise
        self.last_used = time.monotonic()

    def _connected(self, settings: WireSettings, tls: ssl.SSLContext | None) -> socket.socket:
        timeout_s = settings.seconds("socket.connection.setup.timeout.ms")
        try:
            plain = socket.create_connection(self.address, timeout=timeout_s)
        except OSError as error:
            raise ConnectionLost(f"cannot connect to {self.address}: {_reason(error)}") from error
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return plain if tls is None else tls.wrap_socket(plain, server_hostname=self.address.host)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionError, TimeoutError) as error:
            plain.close()
            raise ConnectionLost(
                f"{self.address} closed the connection during the TLS handshake; {_PROTOCOL_HINT}"
            ) from error
        except ssl.SSLCertVerificationError as error:
            plain.close()
            raise AccessDenied(
                f"{self.address}: its certificate is not trusted ({error.verify_message}); see ssl.ca.location"
            ) from None
        except ssl.SSLError as error:
            plain.close()
            raise AccessDenied(f"{self.address}: no TLS connection ({_reason(error)}); {_PROTOCOL_HINT}") from None
        except BaseException:
            plain.close()
            raise

    def _negotiate_versions(self) -> None:
        try:
            self._carry_out(self._exchange.negotiate_versions("penstock", software_version()))
        except ConnectionLost as lost:
            raise ConnectionLost(f"{lost}, before its first response; {_PROTOCOL_HINT}") from lost

    def _authenticate(self, settings: WireSettings) -> None:
        sasl = settings.sasl
        assert sasl is not None
        started = time.monotonic()
        password = sasl.password
        if sasl.token_endpoint is not None:
            from penstock.wire.tokens import token_from

            password = token_from(sasl.token_endpoint, self._request_timeout_s)
        messages = client_messages(sasl.mechanism, sasl.username, password, nonce=secrets.token_urlsafe(24))
        lifetime_ms = self._carry_out(self._exchange.authenticate(sasl.mechanism, messages))
        if lifetime_ms > 0:
            self._expires_at = started + lifetime_ms / 1000 * _SASL_LIFETIME_USED

    def _carry_out(self, steps: Generator[Step, Any, T]) -> T:
        try:
            step = next(steps)
            while True:
                step = steps.send(self.ask(step.request, step.version))
        except StopIteration as end:
            result: T = end.value
            return result


def _send_gathered(sock: socket.socket, chunks: Sequence[Chunk]) -> None:
    """Sends every chunk, however little of them the kernel accepts at a time."""
    waiting = deque(memoryview(chunk) for chunk in chunks if len(chunk))
    while waiting:
        sent = sock.sendmsg([waiting[index] for index in range(min(len(waiting), _CHUNKS_PER_CALL))])
        while waiting and sent >= len(waiting[0]):
            sent -= len(waiting.popleft())
        if sent:
            waiting[0] = waiting[0][sent:]


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__

"""One connection to one broker: TLS, the agreement on versions, SASL, and requests in flight on a blocking socket.

Owns the socket and the order of answers. It must never know what a request is for, and it never retries: whatever
breaks is `ConnectionLost`, and whoever asked decides whether to ask again.

`send` returns a `Pending`; its `response()` reads from the socket until that answer is there. Answers come in the
order of the requests, so those to earlier requests are read on the way and kept with their own `Pending`.

Invariants:
- After any failure the socket is closed and everything in flight on it is lost; no request gets another one's answer.
- Memory follows the bytes that arrive, not the size that a peer announces: large buffers are untouched mappings.
- One thread at a time.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections import deque
from collections.abc import Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as distribution_version
from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from struct import Struct as Packing
from typing import Any, Final, NamedTuple

from penstock.core.addresses import host_port_text
from penstock.core.errors import ClientError, ProtocolError
from penstock.protocol.codec import reader, response_class, splicing_writer, writer
from penstock.protocol.definitions.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.definitions.produce import ProduceRequest
from penstock.protocol.definitions.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from penstock.protocol.definitions.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.headers import API_VERSIONS_KEY, request_header_version, response_header_version
from penstock.protocol.schema import Message
from penstock.protocol.varint import skip_tagged_fields
from penstock.wire.errors import ConnectionLost, require_success
from penstock.wire.security import sasl_exchange
from penstock.wire.settings import WireSettings

_REQUEST_HEADER: Final = Packing(">ihhih")  # size, API key, version, correlation id, length of the client id
_RESPONSE_START: Final = Packing(">ii")  # size, correlation id
_SIZE: Final = Packing(">i")
_SMALL_RESPONSE_BYTES: Final = 256 * 1024
# What one call of sendmsg takes; POSIX promises 16, Linux and macOS take 1024.
_CHUNKS_PER_CALL: Final = 512
# A broker ends a SASL session when its time is up; a new connection is made before that.
_SASL_LIFETIME_USED: Final = 0.85
_PROTOCOL_HINT: Final = "is security.protocol that of its listener?"

Chunk = bytes | bytearray | memoryview


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return host_port_text(self.host, self.port)


class ReceiveBuffer:
    """Memory for one answer at a time, reused because fresh memory is dear: the next answer overwrites the last one."""

    def __init__(self) -> None:
        self._view = memoryview(b"")

    def room(self, size: int) -> memoryview:
        if size > len(self._view):
            self._view = _untouched_memory(size)
        return self._view[:size]


class Pending:
    """A request whose answer has not been taken yet."""

    __slots__ = ("_connection", "_response_class", "correlation_id", "deadline", "frame", "into", "version")

    def __init__(
        self,
        connection: Connection,
        api_key: int,
        version: int,
        correlation_id: int,
        deadline: float,
        into: ReceiveBuffer | None,
    ) -> None:
        self._connection = connection
        self._response_class = response_class(api_key)
        self.version = version
        self.correlation_id = correlation_id
        self.deadline = deadline
        self.into = into
        self.frame: memoryview | None = None

    def response(self) -> Any:
        """Waits for the answer. `records` in it are views of the buffer that it was read into."""
        frame = self.frame if self.frame is not None else self._connection.receive(self)
        cls = self._response_class
        position = 0
        assert cls.API_KEY is not None
        try:
            if response_header_version(cls.API_KEY, self.version):
                position = skip_tagged_fields(frame, 0, len(frame))
            response, _ = reader(cls, self.version)(frame, position, len(frame))
        except (ProtocolError, IndexError):
            self._connection.close()
            raise ProtocolError(f"{self._connection.address} sent an answer that is no {cls.__name__}") from None
        return response


class Connection:
    """Connected, agreed on versions and authenticated when the constructor returns.

    Raises ConnectionLost when nobody answers; BrokerError (SASL_AUTHENTICATION_FAILED and the like) or ClientError
    when trying again would change nothing.
    """

    def __init__(self, address: Address, settings: WireSettings, tls: ssl.SSLContext | None) -> None:
        self.address = address
        self.features: dict[str, int] = {}
        self.last_used = time.monotonic()
        self._request_timeout_s = settings.seconds("request.timeout.ms")
        self._client_id = settings.client_id.encode()
        self._versions: dict[int, tuple[int, int]] = {}
        self._in_flight: deque[Pending] = deque()
        self._correlation_id = 0
        self._expires_at = float("inf")
        self._socket: socket.socket | None = self._connected(settings, tls)
        self._can_gather = tls is None
        try:
            self._agree_on_versions()
            if settings.sasl is not None:
                self._authenticate(settings)
        except BaseException:
            self.close()
            raise

    @property
    def is_open(self) -> bool:
        return self._socket is not None

    @property
    def is_expired(self) -> bool:
        """Whether the broker is about to end the SASL session."""
        return time.monotonic() >= self._expires_at

    def fileno(self) -> int:
        """For those who wait for several connections at once."""
        if self._socket is None:
            raise ConnectionLost(f"the connection to {self.address} was lost")
        return self._socket.fileno()

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    def close(self) -> None:
        """Whatever is in flight is lost."""
        closing, self._socket = self._socket, None
        if closing is not None:
            closing.close()

    def version_for(self, request: type[Message], *, at_least: int = 0, at_most: int | None = None) -> int:
        """The newest version that broker, codec and caller have in common."""
        assert request.API_KEY is not None
        name = request.__name__.removesuffix("Request")
        if request.API_KEY not in self._versions:
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, f"{self.address} does not serve {name}")
        first, last = self._versions[request.API_KEY]
        newest = min(last, request.VERSIONS[1], last if at_most is None else at_most)
        oldest = max(first, request.VERSIONS[0], at_least)
        if newest < oldest:
            raise BrokerError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{self.address} serves {name} in versions {first} to {last}, and {oldest} is needed"
                " (a broker like Apache Kafka 3.0 or newer)",
            )
        return newest

    def ask(self, request: Message, version: int, *, timeout_s: float | None = None) -> Any:
        return self.send(request, version, timeout_s=timeout_s).response()

    def send(
        self, request: Message, version: int, *, timeout_s: float | None = None, into: ReceiveBuffer | None = None
    ) -> Pending:
        """`timeout_s` is what the broker may take on top of `request.timeout.ms`, such as the wait of a long poll."""
        pending = self._pending(request, version, timeout_s, into)
        self._in_flight.append(pending)
        self._transmit(request, version, pending.correlation_id)
        return pending

    def send_unanswered(self, request: Message, version: int) -> None:
        """A request that no answer follows: Produce with acks=0."""
        self._correlation_id += 1
        self._transmit(request, version, self._correlation_id)

    def receive(self, wanted: Pending) -> memoryview:
        """The answer's frame behind the correlation id; frames before it go to their own requests."""
        while wanted.frame is None:
            if self._socket is None or not self._in_flight:
                raise ConnectionLost(f"the connection to {self.address} was lost")
            pending = self._in_flight[0]
            try:
                pending.frame = self._read_frame(self._socket, pending)
            except BaseException:
                self.close()
                raise
            self._in_flight.popleft()
        self.last_used = time.monotonic()
        return wanted.frame

    def _pending(self, request: Message, version: int, timeout_s: float | None, into: ReceiveBuffer | None) -> Pending:
        assert request.API_KEY is not None
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        deadline = time.monotonic() + self._request_timeout_s + (timeout_s or 0)
        return Pending(self, request.API_KEY, version, self._correlation_id, deadline, into)

    def _transmit(self, request: Message, version: int, correlation_id: int) -> None:
        sock = self._socket
        if sock is None:
            raise ConnectionLost(f"the connection to {self.address} was lost")
        try:
            sock.settimeout(self._request_timeout_s)
            chunks = self._encoded(request, version, correlation_id)
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

    def _encoded(self, request: Message, version: int, correlation_id: int) -> list[Chunk]:
        """The frame in pieces: record batches are sent from where they lie."""
        assert request.API_KEY is not None
        out = bytearray(
            _REQUEST_HEADER.pack(0, request.API_KEY, version, correlation_id, len(self._client_id)) + self._client_id
        )
        if request_header_version(request.API_KEY, version) > 1:
            out.append(0)
        if not isinstance(request, ProduceRequest):
            writer(type(request), version)(out, request)
            _SIZE.pack_into(out, 0, len(out) - 4)
            return [out]
        splices: list[tuple[int, Any]] = []
        splicing_writer(ProduceRequest, version)(out, request, splices)
        _SIZE.pack_into(out, 0, len(out) - 4 + sum(len(records) for _, records in splices))
        chunks: list[Chunk] = []
        view, start = memoryview(out), 0
        for position, records in splices:
            chunks += (view[start:position], records)
            start = position
        chunks.append(view[start:])
        return chunks

    def _read_frame(self, sock: socket.socket, pending: Pending) -> memoryview:
        start = memoryview(bytearray(_RESPONSE_START.size))
        self._read_exactly(sock, start, pending.deadline)
        size, correlation_id = _RESPONSE_START.unpack(start)
        if size < 4 or correlation_id != pending.correlation_id:
            raise ProtocolError(f"{self.address} does not answer as a Kafka broker does; {_PROTOCOL_HINT}")
        size -= 4
        if pending.into is not None:
            frame = pending.into.room(size)
        elif size <= _SMALL_RESPONSE_BYTES:
            frame = memoryview(bytearray(size))
        else:
            frame = _untouched_memory(size)
        self._read_exactly(sock, frame, pending.deadline)
        return frame

    def _read_exactly(self, sock: socket.socket, room: memoryview, deadline: float) -> None:
        try:
            sock.settimeout(max(deadline - time.monotonic(), 0.001))
            while room:
                count = sock.recv_into(room)
                if not count:
                    raise ConnectionLost(f"{self.address} closed the connection")
                room = room[count:]
                if room and time.monotonic() > deadline:
                    raise TimeoutError
        except TimeoutError:
            raise ConnectionLost(f"{self.address} did not answer in time (request.timeout.ms)") from None
        except OSError as error:
            raise ConnectionLost(f"the connection to {self.address} was lost: {_reason(error)}") from error

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
            raise ConnectionLost(f"{self.address} broke off the TLS handshake; {_PROTOCOL_HINT}") from error
        except ssl.SSLCertVerificationError as error:
            plain.close()
            raise ClientError(
                f"{self.address}: its certificate is not trusted ({error.verify_message}); see ssl.ca.location"
            ) from None
        except ssl.SSLError as error:
            plain.close()
            raise ClientError(f"{self.address}: no TLS connection ({_reason(error)}); {_PROTOCOL_HINT}") from None
        except BaseException:
            plain.close()
            raise

    def _agree_on_versions(self) -> None:
        request = ApiVersionsRequest(client_software_name="penstock", client_software_version=_software_version())
        newest = ApiVersionsRequest.VERSIONS[1]
        pending = self.send(request, newest)
        try:
            frame = self.receive(pending)
        except ConnectionLost as lost:
            raise ConnectionLost(f"{lost}, before anything was said; {_PROTOCOL_HINT}") from lost
        # A broker that does not know this version says so in version 0, which every client can read (KIP-511).
        if frame[:2] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big"):
            pending.version = 0
            offered = {api.api_key: api.max_version for api in pending.response().api_keys}
            pending = self.send(request, min(newest, offered.get(API_VERSIONS_KEY, 0)))
        response: ApiVersionsResponse = pending.response()
        require_success(response.error_code, f"the versions that {self.address} speaks")
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        if response.finalized_features_epoch >= 0:
            self.features = {feature.name: feature.max_version_level for feature in response.finalized_features}

    def _authenticate(self, settings: WireSettings) -> None:
        sasl = settings.sasl
        assert sasl is not None
        handshake: SaslHandshakeResponse = self.ask(
            SaslHandshakeRequest(mechanism=sasl.mechanism), self.version_for(SaslHandshakeRequest, at_least=1)
        )
        offered = ", ".join(handshake.mechanisms)
        require_success(handshake.error_code, f"sasl.mechanism={sasl.mechanism}", f"{self.address} offers {offered}")
        version = self.version_for(SaslAuthenticateRequest)
        exchange = sasl_exchange(sasl)
        message = next(exchange)
        started = time.monotonic()
        while True:
            answer: SaslAuthenticateResponse = self.ask(SaslAuthenticateRequest(auth_bytes=message), version)
            require_success(answer.error_code, f"{self.address} refused the credentials", answer.error_message)
            try:
                message = exchange.send(bytes(answer.auth_bytes))
            except StopIteration:
                break
        if answer.session_lifetime_ms > 0:
            self._expires_at = started + answer.session_lifetime_ms / 1000 * _SASL_LIFETIME_USED


def _send_gathered(sock: socket.socket, chunks: Sequence[Chunk]) -> None:
    """Everything, however little of it the kernel takes at a time."""
    waiting = deque(memoryview(chunk) for chunk in chunks if len(chunk))
    while waiting:
        sent = sock.sendmsg([waiting[index] for index in range(min(len(waiting), _CHUNKS_PER_CALL))])
        while waiting and sent >= len(waiting[0]):
            sent -= len(waiting.popleft())
        if sent:
            waiting[0] = waiting[0][sent:]


@cache
def _software_version() -> str:
    """In the letters that a broker takes."""
    try:
        version = distribution_version("penstock")
    except PackageNotFoundError:  # the modules came to a Spark worker without their package
        version = "0"
    return "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in version)


def _untouched_memory(size: int) -> memoryview:
    """Its pages cost nothing until bytes arrive in them."""
    return memoryview(mmap(-1, size, MAP_PRIVATE | MAP_ANONYMOUS))


def _reason(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__

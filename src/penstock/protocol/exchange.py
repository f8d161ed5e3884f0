"""Requests and responses on one connection, without the connection: the client's side of the Kafka protocol.

`Exchange` owns correlation ids, the encoding of requests, the requests in flight, the matching and decoding of
responses, and the versions that the broker announced. It knows no socket, no event loop and no clock. A blocking socket
(`wire/connection.py`) and a channel on an event loop drive the same object:

    request, chunks = exchange.send(MetadataRequest(), exchange.version_for(MetadataRequest))
    sock.sendmsg(chunks)
    while not request.is_answered:
        exchange.advance(sock.recv_into(exchange.get_buffer()))
    response = request.decode()

`negotiate_versions` and `authenticate` are generators: they yield a request with its version, are sent the decoded
response, and end when their part of the connection setup is complete.

Invariants:
- Responses match requests in the order of sending, as Kafka guarantees; any other correlation id is a ProtocolError,
  and nothing can be received after it.
- Bytes are received into their final place. `get_buffer` never reaches beyond the response that it belongs to.
- Memory follows the bytes that have arrived, not the size that a peer announces: large buffers are untouched mappings.
- Record batches are not copied on encoding, and `records` of a decoded response are views of its buffer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from struct import Struct as Packing
from typing import Any, Final, NamedTuple

from penstock.core.errors import ProtocolError
from penstock.core.limits import RESPONSE_BYTES_MAX
from penstock.protocol.codec import reader, response_class, splicing_writer, writer
from penstock.protocol.definitions.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocol.definitions.produce import ProduceRequest
from penstock.protocol.definitions.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from penstock.protocol.definitions.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from penstock.protocol.error_codes import BrokerError, ErrorCode, response_error
from penstock.protocol.framing import untouched_memory
from penstock.protocol.headers import API_VERSIONS_KEY, request_header_version, response_header_version
from penstock.protocol.schema import Message
from penstock.protocol.varint import skip_tagged_fields

_REQUEST_HEADER: Final = Packing(">ihhih")  # size, API key, version, correlation id, length of the client id
_RESPONSE_START: Final = Packing(">ii")  # size, correlation id
_SIZE: Final = Packing(">i")
_CORRELATION_ID_BYTES: Final = 4
_CORRELATION_ID_MASK: Final = 0x7FFFFFFF
# Above this size a bytearray costs more than a mapping: it writes zeros to every page.
_SMALL_RESPONSE_BYTES: Final = 256 * 1024
_NO_DEADLINE: Final = float("inf")

Chunk = bytes | bytearray | memoryview
SaslMessages = Generator[bytes, bytes, None]
"""A SASL mechanism: yields the client's messages, is sent the broker's, and ends when it has nothing more to send."""


class Step(NamedTuple):
    """A request of the connection setup, and the version to send it in."""

    request: Message
    version: int


class ReceiveBuffer:
    """Memory for one response at a time, reused because fresh memory is expensive: the next one overwrites the last."""

    def __init__(self) -> None:
        self._view = memoryview(b"")

    def room(self, size: int) -> memoryview:
        if size > len(self._view):
            self._view = untouched_memory(size)
        return self._view[:size]


class InFlightRequest:
    """A request that was encoded; `decode` gives its response once `is_answered`.

    `deadline` belongs to the caller. The exchange carries it and never compares it with a clock.
    """

    __slots__ = ("_frame", "_peer", "_response_class", "correlation_id", "deadline", "into", "version")

    def __init__(
        self,
        peer: str,
        response: type[Message],
        version: int,
        correlation_id: int,
        deadline: float,
        into: ReceiveBuffer | None,
    ) -> None:
        self._peer = peer
        self._response_class = response
        self._frame: memoryview | None = None
        self.version = version
        self.correlation_id = correlation_id
        self.deadline = deadline
        self.into = into

    @property
    def is_answered(self) -> bool:
        return self._frame is not None

    def complete(self, frame: memoryview) -> None:
        """`frame` is the response behind its correlation id."""
        self._frame = frame

    def decode(self) -> Any:
        """The response. Its `records` are views of the buffer that it was received into."""
        frame, cls, version, position = self._frame, self._response_class, self.version, 0
        assert frame is not None, "no response has arrived"
        assert cls.API_KEY is not None
        # A broker that does not know the version of an ApiVersions request answers in version 0 (KIP-511).
        if cls.API_KEY == API_VERSIONS_KEY and frame[:2] == ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big"):
            version = 0
        try:
            if response_header_version(cls.API_KEY, version):
                position = skip_tagged_fields(frame, 0, len(frame))
            response, _ = reader(cls, version)(frame, position, len(frame))
        except (ProtocolError, IndexError):
            raise ProtocolError(f"{self._peer} sent a response that is not a valid {cls.__name__}") from None
        return response


class Exchange:
    """`peer` names the broker in error messages."""

    def __init__(self, peer: str, client_id: str, *, response_bytes_max: int = RESPONSE_BYTES_MAX) -> None:
        self.features: dict[str, int] = {}
        """Finalized features of the cluster by name, as `negotiate_versions` learned them."""
        self._peer = peer
        self._client_id = client_id.encode()
        self._response_bytes_max = response_bytes_max
        self._versions: dict[int, tuple[int, int]] = {}
        self._in_flight: deque[InFlightRequest] = deque()
        self._correlation_id = 0
        self._start = memoryview(bytearray(_RESPONSE_START.size))
        self._room = self._start  # what is still missing of the response's start, or of its frame
        self._frame: memoryview | None = None

    @property
    def in_flight(self) -> int:
        return len(self._in_flight)

    @property
    def deadline(self) -> float:
        """That of the request whose response comes next; infinite when none is in flight."""
        return self._in_flight[0].deadline if self._in_flight else _NO_DEADLINE

    # Sending

    def version_for(self, request: type[Message], *, at_least: int = 0, at_most: int | None = None) -> int:
        """The newest version that broker, codec and caller have in common."""
        assert request.API_KEY is not None
        name = request.__name__.removesuffix("Request")
        if request.API_KEY not in self._versions:
            raise BrokerError(ErrorCode.UNSUPPORTED_VERSION, f"{self._peer} does not support {name}")
        first, last = self._versions[request.API_KEY]
        newest = min(last, request.VERSIONS[1], last if at_most is None else at_most)
        oldest = max(first, request.VERSIONS[0], at_least)
        if newest < oldest:
            raise BrokerError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{self._peer} supports {name} in versions {first} to {last}, and {oldest} is needed"
                " (a broker like Apache Kafka 3.0 or newer)",
            )
        return newest

    def send(
        self, request: Message, version: int, *, deadline: float = _NO_DEADLINE, into: ReceiveBuffer | None = None
    ) -> tuple[InFlightRequest, list[Chunk]]:
        """The request, in flight from now on, and the chunks to send, all of them and in this order.

        Chunks may be views of the request's record batches, which must not change before they are sent.
        """
        assert request.API_KEY is not None
        chunks = self._encode(request, version)
        sent = InFlightRequest(
            self._peer, response_class(request.API_KEY), version, self._correlation_id, deadline, into
        )
        self._in_flight.append(sent)
        return sent, chunks

    def send_unanswered(self, request: Message, version: int) -> list[Chunk]:
        """The chunks of a request that no response follows: Produce with acks=0."""
        return self._encode(request, version)

    def _encode(self, request: Message, version: int) -> list[Chunk]:
        assert request.API_KEY is not None
        self._correlation_id = (self._correlation_id + 1) & _CORRELATION_ID_MASK
        header = _REQUEST_HEADER.pack(0, request.API_KEY, version, self._correlation_id, len(self._client_id))
        out = bytearray(header + self._client_id)
        if request_header_version(request.API_KEY, version) > 1:
            out.append(0)
        if not isinstance(request, ProduceRequest):
            writer(type(request), version)(out, request)
            _SIZE.pack_into(out, 0, len(out) - _SIZE.size)
            return [out]
        splices: list[tuple[int, Any]] = []
        splicing_writer(ProduceRequest, version)(out, request, splices)
        _SIZE.pack_into(out, 0, len(out) - _SIZE.size + sum(len(records) for _, records in splices))
        chunks: list[Chunk] = []
        view, start = memoryview(out), 0
        for position, records in splices:
            chunks += (view[start:position], records)
            start = position
        chunks.append(view[start:])
        return chunks

    # Receiving

    def get_buffer(self) -> memoryview:
        """Where the next bytes go, never empty. Fewer bytes than it has room for may be put at its start."""
        assert self._room, "an exchange that raised ProtocolError cannot continue"
        return self._room

    def advance(self, count: int) -> InFlightRequest | None:
        """`count` bytes were put at the start of `get_buffer`. Gives the request whose response they completed."""
        self._room = self._room[count:]
        if not self._room and self._frame is None:
            self._room = self._frame = self._begin_response()
        if self._room:
            return None
        assert self._frame is not None
        answered = self._in_flight.popleft()
        answered.complete(self._frame)
        self._room, self._frame = self._start, None
        return answered

    def _begin_response(self) -> memoryview:
        size, correlation_id = _RESPONSE_START.unpack(self._start)
        size -= _CORRELATION_ID_BYTES
        if not self._in_flight:
            raise ProtocolError(f"{self._peer} sent a response without a request")
        oldest = self._in_flight[0]
        if size < 0 or correlation_id != oldest.correlation_id:
            raise ProtocolError(f"{self._peer} does not answer like a Kafka broker")
        if size > self._response_bytes_max:
            raise ProtocolError(
                f"{self._peer} announced a response of {size} bytes; at most {self._response_bytes_max} are allowed"
            )
        if oldest.into is not None:
            return oldest.into.room(size)
        return memoryview(bytearray(size)) if size <= _SMALL_RESPONSE_BYTES else untouched_memory(size)

    # Connection setup

    def negotiate_versions(self, software_name: str, software_version: str) -> Generator[Step, Any, None]:
        """ApiVersions in our newest version, and again in the broker's where that one is unknown to it (KIP-511)."""
        request = ApiVersionsRequest(client_software_name=software_name, client_software_version=software_version)
        newest = ApiVersionsRequest.VERSIONS[1]
        response: ApiVersionsResponse = yield Step(request, newest)
        if response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            offered = {api.api_key: api.max_version for api in response.api_keys}
            response = yield Step(request, min(newest, offered.get(API_VERSIONS_KEY, 0)))
        if response.error_code:
            raise response_error(response.error_code, f"{self._peer}, ApiVersions")
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        if response.finalized_features_epoch >= 0:
            self.features = {feature.name: feature.max_version_level for feature in response.finalized_features}

    def authenticate(self, mechanism: str, messages: SaslMessages) -> Generator[Step, Any, int]:
        """SaslHandshake, then one SaslAuthenticate per message. Returns the session's lifetime in ms, 0 for no limit.

        Raises BrokerError when the broker refuses, and whatever `messages` raises.
        """
        handshake: SaslHandshakeResponse = yield Step(
            SaslHandshakeRequest(mechanism=mechanism), self.version_for(SaslHandshakeRequest, at_least=1)
        )
        if handshake.error_code:
            offered = f"{self._peer} offers {', '.join(handshake.mechanisms)}"
            raise response_error(handshake.error_code, f"sasl.mechanism={mechanism}", offered)
        version = self.version_for(SaslAuthenticateRequest)
        message = next(messages)
        while True:
            response: SaslAuthenticateResponse = yield Step(SaslAuthenticateRequest(auth_bytes=message), version)
            if response.error_code:
                subject = f"{self._peer} refused the credentials"
                raise response_error(response.error_code, subject, response.error_message)
            try:
                message = messages.send(bytes(response.auth_bytes))
            except StopIteration:
                return response.session_lifetime_ms

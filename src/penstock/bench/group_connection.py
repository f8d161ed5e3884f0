"""One member's connection to the group coordinator, on our own codec, with one request in flight.

All members of a group run in one process, whose own work is part of every figure; the connection therefore uses the
event loop directly, without asyncio's streams. Sharing the codec with the broker hides no error: a wrong codec would
fail with Apache Kafka too. The module must not know what a group is.
"""

from __future__ import annotations

import asyncio
import struct
import time
from typing import Any, Final, Self, cast

from penstock.bench.measurement import MeasurementError
from penstock.protocol.codec import reader, response_class, writer
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.headers import request_header_version, response_header_version
from penstock.protocol.schema import Message

_ANSWER_BYTES_MAX: Final = 1 << 24
_SIZE_BYTES: Final = 4
_CORRELATION_ID_BYTES: Final = 4
_NO_CLIENT_ID: Final = -1
_PATIENCE_S: Final = 0.02
_NOT_YET: Final = frozenset(
    {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR}
)


class GroupConnection(asyncio.Protocol):
    """At most one request in flight. `last_sent_s` is when the last one was sent, by time.perf_counter()."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._answer: asyncio.Future[bytes] | None = None
        self._correlation_id = 0
        self.last_sent_s = 0.0

    @classmethod
    async def open(cls, bootstrap_servers: str) -> Self:
        host, port = bootstrap_servers.rsplit(":", 1)
        _transport, connection = await asyncio.get_running_loop().create_connection(cls, host, int(port))
        return connection

    def abort(self) -> None:
        """Closes the connection without leaving the group, like a killed process."""
        assert self._transport is not None
        self._transport.abort()

    async def ask(self, request: Message, version: int) -> Any:
        """Returns the response. Retries while the coordinator is not available; the caller handles other errors."""
        while True:
            answer = await self._ask_once(request, version)
            if answer.error_code not in _NOT_YET:
                return answer
            await asyncio.sleep(_PATIENCE_S)

    async def _ask_once(self, request: Message, version: int) -> Any:
        assert request.API_KEY is not None
        assert self._transport is not None
        api_key = request.API_KEY
        self._correlation_id += 1
        frame = bytearray(struct.pack(">ihhih", 0, api_key, version, self._correlation_id, _NO_CLIENT_ID))
        if request_header_version(api_key, version) > 1:
            frame += b"\0"
        writer(type(request), version)(frame, request)
        struct.pack_into(">i", frame, 0, len(frame) - _SIZE_BYTES)
        self._answer = asyncio.get_running_loop().create_future()
        self.last_sent_s = time.perf_counter()
        self._transport.write(frame)
        content = await self._answer
        if struct.unpack_from(">i", content)[0] != self._correlation_id:
            raise MeasurementError("the broker responded to another request")
        body_at = _CORRELATION_ID_BYTES + response_header_version(api_key, version)
        answer, _end = reader(response_class(api_key), version)(content, body_at, len(content))
        return answer

    # Callbacks of the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports have asyncio's methods, but do not inherit from its class.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if len(self._received) < _SIZE_BYTES:
            return
        (size,) = struct.unpack_from(">i", self._received)
        if not _CORRELATION_ID_BYTES <= size <= _ANSWER_BYTES_MAX:
            self._fail(MeasurementError(f"the broker announced a response of {size} bytes"))
        elif len(self._received) >= _SIZE_BYTES + size and self._answer is not None and not self._answer.done():
            self._answer.set_result(bytes(self._received[_SIZE_BYTES : _SIZE_BYTES + size]))
            del self._received[: _SIZE_BYTES + size]

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or ConnectionError("the broker closed the connection"))

    def _fail(self, error: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)

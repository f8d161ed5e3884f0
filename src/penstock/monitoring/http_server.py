"""Serves metrics as Prometheus asks for them: `GET /metrics`, one request for each connection.

Runs on the event loop of the process that it describes. That process comes first: its figures are written a few lines
in each turn of the loop, requests share one text, and a text is served again for nine times as long as it took to
write. So scrapers together take a tenth of the loop at most, however many they are and however often they ask.

Invariant: connections, bytes of a request and the time for each are bounded; a scraper that does not read is cut off.
"""

from __future__ import annotations

import asyncio
import logging
import re
import socket
from collections.abc import Awaitable, Callable
from itertools import islice
from time import perf_counter
from typing import Final

from penstock.core import limits
from penstock.core.exposition import CONTENT_TYPE, lines
from penstock.core.metrics import Metrics

logger = logging.getLogger(__name__)

PATH: Final = "/metrics"
_PLAIN: Final = "text/plain; charset=utf-8"
_REQUEST_LINE: Final = re.compile(rb"([A-Z]{1,20}) (/[!-~]*) HTTP/1\.[01]")
_END_OF_HEAD: Final = b"\r\n\r\n"
_REASONS: Final = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
}
_KEPT_S_MAX: Final = 5.0

Write = Callable[[], Awaitable[bytes]]


class MetricsText:
    """One text for all who ask at the same time, and for a while after."""

    def __init__(self, write: Write, clock: Callable[[], float] = perf_counter) -> None:
        self._write = write
        self._clock = clock
        self._writing: asyncio.Task[bytes] | None = None
        self._fresh_until_s = float("-inf")
        self._text = b""

    async def get(self) -> bytes:
        if self._writing is None:
            if self._clock() < self._fresh_until_s:
                return self._text
            self._writing = asyncio.create_task(self._renew())
        # One of several who wait may leave; the others still want the text.
        return await asyncio.shield(self._writing)

    def close(self) -> None:
        if self._writing is not None:
            self._writing.cancel()

    async def _renew(self) -> bytes:
        began_s = self._clock()
        try:
            self._text = await self._write()
            ended_s = self._clock()
            self._fresh_until_s = ended_s + min(_KEPT_S_MAX, 9 * (ended_s - began_s))
            return self._text
        finally:
            self._writing = None


async def text_of(metrics: Metrics) -> bytes:
    """Written over several turns of the loop."""
    parts: list[bytes] = []
    remaining = lines(metrics)
    while part := list(islice(remaining, limits.METRICS_LINES_PER_TURN)):
        parts.append("".join(part).encode())
        await asyncio.sleep(0)
    return b"".join(parts)


class MetricsServer:
    """Belongs to one event loop. `write` makes the text of a scrape."""

    def __init__(
        self,
        write: Write,
        *,
        head_timeout_s: float = limits.METRICS_HEAD_TIMEOUT_S,
        send_timeout_s: float = limits.METRICS_SEND_TIMEOUT_S,
    ) -> None:
        self._text = MetricsText(write)
        self._head_timeout_s = head_timeout_s
        self._send_timeout_s = send_timeout_s
        self._listener: asyncio.Server | None = None
        self._conversations: set[asyncio.Task[None]] = set()

    async def listen(self, bound: socket.socket) -> None:
        self._listener = await asyncio.start_server(
            self._connected, sock=bound, limit=limits.METRICS_HEAD_BYTES_MAX, backlog=limits.METRICS_CONNECTIONS_MAX
        )

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for conversation in tuple(self._conversations):
            conversation.cancel()
        self._text.close()

    async def wait_closed(self) -> None:
        await asyncio.gather(*self._conversations, return_exceptions=True)
        await asyncio.sleep(0)  # transports that were aborted close their sockets in the next turn

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._conversations) >= limits.METRICS_CONNECTIONS_MAX:
            writer.transport.abort()
            return
        conversation = asyncio.get_running_loop().create_task(self._converse(reader, writer))
        self._conversations.add(conversation)
        conversation.add_done_callback(self._conversations.discard)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            try:
                async with asyncio.timeout(self._head_timeout_s):
                    method = await _read_request(reader)
                response = await self._figures(without_body=method == "HEAD")
            except _Refused as refused:
                response = refused.response
            async with asyncio.timeout(self._send_timeout_s):
                writer.write(response)
                await writer.drain()
                writer.close()
                await writer.wait_closed()
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # the scraper is gone or too slow, and asks again when it likes
        finally:
            writer.transport.abort()

    async def _figures(self, *, without_body: bool) -> bytes:
        try:
            return _response(200, CONTENT_TYPE, await self._text.get(), without_body=without_body)
        except Exception as mistake:
            # A mistake in one figure must not end what it describes.
            logger.exception("metrics cannot be written")
            raise _Refused(500, "metrics cannot be written; the log says why") from mistake


class _Refused(Exception):
    """A request that is answered with another status than 200."""

    def __init__(self, status: int, text: str, *headers: str, without_body: bool = False) -> None:
        super().__init__(text)
        self.response = _response(status, _PLAIN, f"{text}\n".encode(), *headers, without_body=without_body)


async def _read_request(reader: asyncio.StreamReader) -> str:
    """The method of a request for metrics. Raises _Refused for any other request."""
    try:
        head = await reader.readuntil(_END_OF_HEAD)
    except asyncio.LimitOverrunError as overrun:
        raise _Refused(431, f"a request has at most {limits.METRICS_HEAD_BYTES_MAX} bytes") from overrun
    request = _REQUEST_LINE.fullmatch(head.partition(b"\r\n")[0])
    if request is None:
        raise _Refused(400, "not an HTTP/1 request")
    method, target = request[1].decode(), request[2].decode().partition("?")[0]
    if target != PATH:
        raise _Refused(404, f"metrics are at {PATH}", without_body=method == "HEAD")
    if method not in ("GET", "HEAD"):
        raise _Refused(405, f"{PATH} can only be read", "Allow: GET, HEAD")
    return method


def _response(status: int, content_type: str, body: bytes, *headers: str, without_body: bool) -> bytes:
    head = "\r\n".join(
        (
            f"HTTP/1.1 {status} {_REASONS[status]}",
            f"Content-Type: {content_type}",
            f"Content-Length: {len(body)}",
            "Connection: close",
            *headers,
            "\r\n",
        )
    ).encode()
    return head if without_body else head + body

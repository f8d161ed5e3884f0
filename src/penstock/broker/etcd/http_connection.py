"""One HTTP/1.1 connection to a member of etcd: requests one after the other, and responses that arrive in pieces.

h11 owns the protocol; this module carries its bytes. Knows nothing of etcd's messages (`gateway.py`).

Invariant: a connection on which anything failed, or that was left in the middle of a response, is closed and never used
again.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final

import h11

CONNECT_TIMEOUT_S: Final = 3.0
_READ_BYTES: Final = 64 * 1024
_KEEP_ALIVE_IDLE_S: Final = 4
_KEEP_ALIVE_INTERVAL_S: Final = 2
_KEEP_ALIVE_PROBES: Final = 3
_USER_TIMEOUT_MS: Final = 10_000


class ConnectionFailed(Exception):
    """The member cannot be reached, the connection broke, or what came back is not HTTP. One line."""


class NotConnected(ConnectionFailed):
    """The connection could not be made, so that no request was sent."""


@dataclass(frozen=True, slots=True)
class Member:
    """The client address of one member of etcd."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class HttpConnection:
    """Opened with `HttpConnection.open`. One request at a time."""

    def __init__(self, member: Member, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.member = member
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.CLIENT)

    @classmethod
    async def open(cls, member: Member, tls: ssl.SSLContext | None, timeout_s: float) -> HttpConnection:
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await asyncio.open_connection(member.host, member.port, ssl=tls)
        except TimeoutError:
            raise NotConnected(f"{member} does not accept connections") from None
        except ssl.SSLError as error:
            raise NotConnected(f"{member}: TLS failed: {reason_of(error)}") from None
        except OSError as error:
            raise NotConnected(f"{member}: {reason_of(error)}") from None
        _notice_dead_peer(writer.get_extra_info("socket"))
        return cls(member, reader, writer)

    @property
    def is_reusable(self) -> bool:
        idle = self._http.our_state is h11.IDLE and self._http.their_state is h11.IDLE
        return idle and not self._reader.at_eof() and not self._writer.is_closing()

    async def send(self, path: str, body: bytes, headers: Mapping[str, str]) -> int:
        """Sends a POST request and returns the status of its response, whose body follows with `body`."""
        try:
            request = h11.Request(
                method="POST",
                target=path,
                headers=[
                    ("Host", str(self.member)),
                    ("Content-Type", "application/json"),
                    ("Content-Length", str(len(body))),
                    *headers.items(),
                ],
            )
            parts = (request, h11.Data(data=body), h11.EndOfMessage())
            self._writer.write(b"".join(self._http.send(part) or b"" for part in parts))
            await self._writer.drain()
            while True:
                event = await self._next_event()
                if isinstance(event, h11.Response):
                    return event.status_code
                if not isinstance(event, h11.InformationalResponse):
                    raise ConnectionFailed(f"{self.member} closed the connection without an answer")
        except (OSError, h11.ProtocolError) as error:
            raise self._failure(error) from None

    async def body(self) -> AsyncIterator[bytes]:
        """The body of the response in pieces, as they arrive. The connection is reusable when it has ended."""
        try:
            while True:
                event = await self._next_event()
                if isinstance(event, h11.Data):
                    yield bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    break
                else:
                    raise ConnectionFailed(f"{self.member} closed the connection within an answer")
            if self._http.our_state is h11.DONE and self._http.their_state is h11.DONE:
                self._http.start_next_cycle()
        except (OSError, h11.ProtocolError) as error:
            raise self._failure(error) from None

    def close(self) -> None:
        # Aborts: nothing that is still to be sent matters, and closing TLS would wait for the peer.
        self._writer.transport.abort()

    def _failure(self, error: Exception) -> ConnectionFailed:
        if isinstance(error, h11.RemoteProtocolError) and self._reader.at_eof():
            return ConnectionFailed(f"{self.member} closed the connection")
        return ConnectionFailed(f"{self.member}: {reason_of(error)}")

    async def _next_event(self) -> h11.Event | type[h11.PAUSED]:
        while True:
            event = self._http.next_event()
            if event is not h11.NEED_DATA:
                return event  # type: ignore[return-value]
            self._http.receive_data(await self._reader.read(_READ_BYTES))


def reason_of(error: Exception) -> str:
    """The reason of a failure in a few words, without Python's or OpenSSL's decoration."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).replace("_", " ").lower()
    if isinstance(error, socket.gaierror):
        return "the host name is not known"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error)


def _notice_dead_peer(connection: socket.socket) -> None:
    """A member that lost its power or its network sends nothing: the kernel has to find out."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _KEEP_ALIVE_IDLE_S),
        ("TCP_KEEPINTVL", _KEEP_ALIVE_INTERVAL_S),
        ("TCP_KEEPCNT", _KEEP_ALIVE_PROBES),
        ("TCP_USER_TIMEOUT", _USER_TIMEOUT_MS),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            connection.setsockopt(socket.IPPROTO_TCP, option, value)

"""A minimal Kafka client for tests: one blocking socket on our own codec.

It sends requests that no real client sends, and bytes that are not requests, and returns the response or raises
`ConnectionClosed`. It must never retry, reconnect or repair anything.
"""

from __future__ import annotations

import socket
import struct
from typing import Any, Final, Self

from penstock.protocol.codec import reader, response_class, writer
from penstock.protocol.headers import request_header_version, response_header_version
from penstock.protocol.schema import Message

TIMEOUT_S: Final = 30.0
_CLIENT_ID: Final = b"wire-client"


class ConnectionClosed(Exception):
    """The broker hung up instead of answering."""


def request_header(api_key: int, version: int, correlation_id: int, *, flexible: bool | None = None) -> bytes:
    """The header of a request; whether it ends in tagged fields follows from API and version unless it is given."""
    if flexible is None:
        flexible = request_header_version(api_key, version) > 1
    header = struct.pack(">hhih", api_key, version, correlation_id, len(_CLIENT_ID)) + _CLIENT_ID
    return header + b"\0" if flexible else header


def encode_request(request: Message, version: int, correlation_id: int = 0) -> bytes:
    """Header and body, without the frame's size."""
    body = bytearray()
    writer(type(request), version)(body, request)
    assert request.API_KEY is not None
    return request_header(request.API_KEY, version, correlation_id) + bytes(body)


def framed(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


class WireClient:
    """A context manager around one connection; correlation ids count up from 1 and answers are checked against them."""

    def __init__(
        self, bootstrap_servers: str, *, timeout_s: float = TIMEOUT_S, receive_buffer: int | None = None
    ) -> None:
        host, _, port = bootstrap_servers.rpartition(":")
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout_s)
        self.socket.connect((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    def ask(self, request: Message, version: int) -> Any:
        """Sends a request and reads its response."""
        return self.receive(request.API_KEY, version, self.send(request, version))

    def send(self, request: Message, version: int) -> int:
        """Sends a request without waiting; the correlation id under which its response will come."""
        self._correlation_id += 1
        self.send_raw(framed(encode_request(request, version, self._correlation_id)))
        return self._correlation_id

    def send_raw(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except ConnectionError as error:
            raise ConnectionClosed from error

    def receive(self, api_key: int | None, version: int, correlation_id: int) -> Any:
        """The response that must come next, decoded to its last byte."""
        assert api_key is not None
        frame = self.receive_frame()
        header_bytes = 4 + response_header_version(api_key, version)
        assert int.from_bytes(frame[:4], "big", signed=True) == correlation_id
        response, position = reader(response_class(api_key), version)(frame, header_bytes, len(frame))
        assert position == len(frame), f"{len(frame) - position} bytes behind the response"
        return response

    def receive_frame(self) -> bytes:
        (size,) = struct.unpack(">i", self.receive_exactly(4))
        return self.receive_exactly(size)

    def receive_exactly(self, count: int) -> bytes:
        received = bytearray(count)
        view = memoryview(received)
        while view:
            try:
                got = self.socket.recv_into(view)
            except ConnectionError as error:
                raise ConnectionClosed from error
            if not got:
                raise ConnectionClosed
            view = view[got:]
        return bytes(received)

    def is_closed_by_peer(self) -> bool:
        """Waits for the broker to hang up; False when it says something instead, or stays silent past the timeout."""
        try:
            return not self.socket.recv(1)
        except ConnectionError:
            return True
        except TimeoutError:
            return False

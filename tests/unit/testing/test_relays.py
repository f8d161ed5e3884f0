"""Relays between processes: bytes pass unchanged, wait while their direction is cut, and arrive after it heals."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from penstock.testing.relays import Relays

TIMEOUT_S = 30.0


class Echo:
    """A server that remembers what reached it and sends it back."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.arrived = threading.Condition()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(65536):
                with self.arrived:
                    self.received += data
                    self.arrived.notify_all()
                connection.sendall(data)

    def await_bytes(self, expected: bytes) -> None:
        with self.arrived:
            assert self.arrived.wait_for(lambda: bytes(self.received) == expected, TIMEOUT_S), self.received

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join()


@pytest.fixture
def echo() -> Iterator[Echo]:
    server = Echo()
    yield server
    server.close()


@pytest.fixture
def relays() -> Iterator[Relays]:
    with Relays() as running:
        yield running


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)


def read(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        piece = connection.recv(size - len(received))
        assert piece, f"the connection ended after {len(received)} bytes"
        received += piece
    return received


def test_bytes_pass_unchanged_in_both_directions(relays: Relays, echo: Echo) -> None:
    content = bytes(range(256)) * 8000
    with connect(relays.add("1", "2", echo.port)) as connection:
        sender = threading.Thread(target=connection.sendall, args=(content,))
        sender.start()
        assert read(connection, len(content)) == content
        sender.join()


def test_a_cut_request_waits_and_arrives_after_the_heal(relays: Relays, echo: Echo) -> None:
    with connect(relays.add("1", "2", echo.port)) as connection:
        connection.sendall(b"a")
        assert read(connection, 1) == b"a"
        relays.cut("1", "2")
        connection.sendall(b"b")
        with connect(relays.add("3", "2", echo.port)) as other:  # another pair is not affected
            other.sendall(b"c")
            assert read(other, 1) == b"c"
        assert bytes(echo.received) == b"ac"
        relays.heal()
        assert read(connection, 1) == b"b"
        assert bytes(echo.received) == b"acb"


def test_a_cut_answer_waits_while_requests_arrive(relays: Relays, echo: Echo) -> None:
    with connect(relays.add("1", "2", echo.port)) as connection:
        connection.sendall(b"a")
        assert read(connection, 1) == b"a"
        relays.cut("2", "1")
        connection.sendall(b"b")
        echo.await_bytes(b"ab")
        connection.setblocking(False)
        with pytest.raises(BlockingIOError):
            connection.recv(1)
        connection.settimeout(TIMEOUT_S)
        relays.heal("2", "1")
        assert read(connection, 1) == b"b"


@pytest.mark.parametrize("cut", [("1", "2"), ("2", "1")])
def test_a_connection_is_not_made_while_either_direction_is_cut(
    relays: Relays, echo: Echo, cut: tuple[str, str]
) -> None:
    relays.cut(*cut)
    with connect(relays.add("1", "2", echo.port)) as connection:
        connection.sendall(b"a")
        assert relays.is_cut(*cut)
        assert not echo.received
        relays.heal()
        assert read(connection, 1) == b"a"


def test_connections_break_and_new_ones_are_made(relays: Relays, echo: Echo) -> None:
    port = relays.add("1", "2", echo.port)
    with connect(port) as connection:
        connection.sendall(b"a")
        assert read(connection, 1) == b"a"
        relays.break_connections("1", "2")
        assert connection.recv(1) == b""
    with connect(port) as connection:
        connection.sendall(b"b")
        assert read(connection, 1) == b"b"


def test_a_target_that_does_not_listen_ends_the_connection(relays: Relays) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
    with connect(relays.add("1", "2", port)) as connection:
        assert connection.recv(1) == b""

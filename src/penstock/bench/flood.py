"""Clients that mean no good, in their own process: `python -m penstock.bench.flood JSON` until its stdin closes.

It prints one line when the flood runs, and the number of its connections when it ends. Paced where an attacker's own
CPU time would otherwise be what is measured: all processes share the machine's cores.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import select
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Literal

from penstock.bench.measurement import MeasurementError

Kind = Literal["connections", "trickle", "unauthenticated", "handshakes"]

_PACE_S: Final = 0.01
_CONNECTIONS_PER_PACE: Final = 10
_IDLE_SOCKETS: Final = 1_000
_SOCKETS: Final = 50
_CONNECT_TIMEOUT_S: Final = 10.0
# ApiVersions version 0 without a client id, the smallest request that is answered.
_API_VERSIONS: Final = struct.pack(">ihhih", 10, 18, 0, 1, -1)
# Metadata version 1 of all topics, which wants authentication first.
_METADATA: Final = struct.pack(">ihhihi", 14, 3, 1, 1, -1, -1)
# The head of a TLS record that announces a ClientHello of 512 bytes, and two of these.
_HALF_A_HELLO: Final = bytes.fromhex("1603010200") + b"\x01\x00"


@dataclass(frozen=True, slots=True)
class Flood:
    """`connections`: a thousand new connections a second, each asking one thing. `trickle`: a thousand sockets that
    send a byte a second each. `unauthenticated`: fifty that ask for metadata before authenticating, again and again.
    `handshakes`: a thousand that begin a TLS handshake and leave it at that."""

    kind: Kind
    address: str

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        command = [sys.executable, "-m", "penstock.bench.flood", json.dumps(dataclasses.asdict(self))]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                if process.stdout.readline() != "running\n":
                    raise MeasurementError(f"the flood of {self.kind} did not begin")
                yield
                process.stdin.close()
                if int(process.stdout.read() or 0) == 0:
                    raise MeasurementError(f"the flood of {self.kind} made no connection")
            finally:
                process.kill()


def _connections(open_one: Callable[[], socket.socket]) -> int:
    made = 0
    for _ in _paces():
        for _ in range(_CONNECTIONS_PER_PACE):
            with contextlib.suppress(OSError), open_one() as client:
                client.sendall(_API_VERSIONS)
                made += 1
    return made


def _trickle(open_one: Callable[[], socket.socket]) -> int:
    clients = [open_one() for _ in range(_IDLE_SOCKETS)]
    per_pace = int(_IDLE_SOCKETS * _PACE_S)
    sent = 0
    for _ in _paces():
        for _ in range(per_pace):
            place, byte = sent % _IDLE_SOCKETS, sent // _IDLE_SOCKETS % len(_API_VERSIONS)
            sent += 1
            try:
                clients[place].send(_API_VERSIONS[byte : byte + 1])
            except OSError:
                clients[place].close()
                clients[place] = open_one()
    return len(clients)


def _unauthenticated(open_one: Callable[[], socket.socket]) -> int:
    made = 0
    clients: list[socket.socket] = []
    for _ in _paces():
        while len(clients) < _SOCKETS:
            clients.append(open_one())
            made += 1
        for client in clients:
            with contextlib.suppress(OSError):
                client.send(_METADATA)
        refused, _writable, _failed = select.select(clients, [], [], 0)
        for client in refused:
            clients.remove(client)
            client.close()
    return made


def _handshakes(open_one: Callable[[], socket.socket]) -> int:
    made = 0
    clients: list[socket.socket] = []
    for _ in _paces():
        for _ in range(_CONNECTIONS_PER_PACE):
            if len(clients) < _IDLE_SOCKETS:
                client = open_one()
                with contextlib.suppress(OSError):
                    client.sendall(_HALF_A_HELLO)
                clients.append(client)
                made += 1
        if len(clients) == _IDLE_SOCKETS:
            clients.pop(0).close()
    return made


def _paces() -> Iterator[None]:
    """Until stdin closes. A pace that was missed is not made up for."""
    while not select.select([sys.stdin], [], [], 0)[0]:
        yield
        time.sleep(_PACE_S)


def main() -> int:
    flood = Flood(**json.loads(sys.argv[1]))
    host, port = flood.address.rsplit(":", 1)

    def open_one() -> socket.socket:
        return socket.create_connection((host, int(port)), timeout=_CONNECT_TIMEOUT_S)

    kinds: dict[Kind, Callable[[Callable[[], socket.socket]], int]] = {
        "connections": _connections,
        "trickle": _trickle,
        "unauthenticated": _unauthenticated,
        "handshakes": _handshakes,
    }
    print("running", flush=True)
    print(kinds[flood.kind](open_one))
    return 0


if __name__ == "__main__":
    sys.exit(main())

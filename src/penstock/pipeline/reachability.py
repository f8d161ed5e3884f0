"""Notices at once that a broker is away, and that it is back.

A source retries for a minute before it fails, and meanwhile a person does not learn why nothing happens. This holds one
idle connection to the brokers of a cluster: when a broker ends, so does the connection, and whether another one can be
made says whether brokers are there. It sends nothing, and costs one connection for each pipeline and cluster.

Owns that connection. It must never know what the brokers are used for.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Sequence
from typing import Final

from penstock.core.addresses import host_port_text

_CONNECT_TIMEOUT_S: Final = 1.0

Address = tuple[str, int]


def _connect(address: Address) -> socket.socket:
    return socket.create_connection(address, timeout=_CONNECT_TIMEOUT_S)


class BrokerWatch:
    """`look` as often as an answer is wanted: it takes no time while all is well."""

    def __init__(self, servers: Sequence[Address], connect: Callable[[Address], socket.socket] = _connect) -> None:
        self._servers = tuple(servers)
        self._connect = connect
        self._connection: socket.socket | None = None

    def look(self) -> str | None:
        """None if a broker is there, else why none is."""
        if self._connection is not None:
            if _is_open(self._connection):
                return None
            self.close()
        reasons = []
        for address in self._servers:
            try:
                self._connection = self._connect(address)
            except OSError as failure:
                reasons.append(f"{host_port_text(*address)} ({(failure.strerror or str(failure)).lower()})")
            else:
                self._connection.setblocking(False)
                return None
        return f"no broker answers at {', '.join(reasons)}; waiting for it"

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
            self._connection = None


def _is_open(connection: socket.socket) -> bool:
    try:
        return connection.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except OSError:
        return False

"""Sockets for the configured listeners, and the endpoints that clients are told.

Owns: binding every listener before anything else of a start happens, and working out the advertised address of each
listener name. Must not know: connections and requests.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.addresses import host_port_text
from penstock.metadata.changes import Endpoint
from penstock.metadata.listeners import Listener
from penstock.monitoring.listening import CannotListen, bind

if TYPE_CHECKING:
    from penstock.broker.network.tls import ListenerTls
    from penstock.broker.network.token_keys import TokenKeys

_ANY_ADDRESS: Final = ("", "0.0.0.0", "::")  # noqa: S104 - what a listener may say, not what we bind


@dataclass(frozen=True, slots=True)
class BoundListener:
    """A listener and its socket, which is bound and does not listen yet."""

    name: str
    socket: socket.socket
    tls: ListenerTls | None = None
    token_keys: TokenKeys | None = None

    @property
    def port(self) -> int:
        """The port that the system chose where the listener names port 0."""
        return int(self.socket.getsockname()[1])

    @property
    def address(self) -> str:
        """Where the broker listens, as `host:port`."""
        host, port = self.socket.getsockname()[:2]
        return host_port_text(host, port)


def bind_all(listeners: Sequence[Listener]) -> list[BoundListener]:
    """Binds every listener, or none of them: CannotListen names the first that fails."""
    bound: list[BoundListener] = []
    try:
        for listener in listeners:
            bound.append(BoundListener(listener.name, bind(listener.host, listener.port, option="--listen")))
    except CannotListen:
        close_all(bound)
        raise
    return bound


def close_all(bound: Iterable[BoundListener]) -> None:
    for listener in bound:
        listener.socket.close()


def advertised_endpoints(advertised: Sequence[Listener], bound: Sequence[BoundListener]) -> dict[str, Endpoint]:
    """The endpoint of each listener by its name, in the order of `listeners`.

    Port 0 stands for the port that was bound, and an address of every interface for this machine's name.
    """
    ports = {listener.name: listener.port for listener in bound}
    return {
        listener.name: Endpoint(
            socket.gethostname() if listener.host in _ANY_ADDRESS else listener.host,
            listener.port or ports[listener.name],
            listener.protocol,
        )
        for listener in advertised
    }

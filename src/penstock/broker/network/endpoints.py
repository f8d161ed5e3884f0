"""Sockets for the configured listeners, and the endpoints that clients are told.

Owns: binding every listener before anything else of a start happens, and working out the advertised address of each
listener name. Must not know: connections and requests.
"""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.addresses import host_port_text
from penstock.metadata.image import Endpoint
from penstock.metadata.listeners import Listener

if TYPE_CHECKING:
    from penstock.broker.network.tls import ListenerTls
    from penstock.broker.network.token_keys import TokenKeys

_ANY_ADDRESS: Final = ("", "0.0.0.0", "::")  # noqa: S104 - what a listener may say, not what we bind


class CannotListen(Exception):
    """An address that cannot be bound. The message is one line for a person."""


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
            bound.append(BoundListener(listener.name, _bind(listener)))
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


def _bind(listener: Listener) -> socket.socket:
    family = socket.AF_INET6 if ":" in listener.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((listener.host, listener.port))
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        place = host_port_text(listener.host, listener.port)
        raise CannotListen(f"cannot listen on {place}: {_why(error, listener)}") from None
    return bound


def _why(error: OSError, listener: Listener) -> str:
    """What is wrong with the address, and what to do."""
    if isinstance(error, socket.gaierror):
        return f"the name {listener.host} does not resolve; choose an address of this machine with --listen"
    match error.errno:
        case errno.EADDRINUSE:
            return "the address is already in use; stop the process that uses it, or choose another port with --listen"
        case errno.EADDRNOTAVAIL:
            return (
                f"{listener.host} is not an address of this machine; listen on 127.0.0.1, on 0.0.0.0 for every "
                "interface, or on an address that `ip address` shows"
            )
        case errno.EACCES | errno.EPERM:
            return f"permission denied; ports below 1024 need privileges: choose another than {listener.port}"
        case _:
            return f"{error.strerror}; choose another address with --listen"

"""A socket that is bound to an address, or one line that says what is wrong with the address."""

from __future__ import annotations

import errno
import socket

from penstock.core.addresses import host_port_text


class CannotListen(Exception):
    """An address that cannot be bound. The message is one line for a person."""


def bind(host: str, port: int, *, option: str) -> socket.socket:
    """Bound and not listening yet. `option` is what a person chooses another address with. Raises CannotListen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((host, port))
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        raise CannotListen(
            f"cannot listen on {host_port_text(host, port)}: {_why(error, host, port, option)}"
        ) from None
    return bound


def address_of(bound: socket.socket) -> str:
    """As `host:port`, with the port that the system chose for port 0."""
    host, port = bound.getsockname()[:2]
    return host_port_text(host, port)


def _why(error: OSError, host: str, port: int, option: str) -> str:
    """What is wrong with the address, and what to do."""
    if isinstance(error, socket.gaierror):
        return f"the name {host} does not resolve; choose an address of this machine with {option}"
    match error.errno:
        case errno.EADDRINUSE:
            return f"the address is already in use; stop the process that uses it, or choose another port with {option}"
        case errno.EADDRNOTAVAIL:
            return (
                f"{host} is not an address of this machine; listen on 127.0.0.1, on 0.0.0.0 for every "
                "interface, or on an address that `ip address` shows"
            )
        case errno.EACCES | errno.EPERM:
            return f"permission denied; ports below 1024 need privileges: choose another than {port}"
        case _:
            return f"{error.strerror}; choose another address with {option}"

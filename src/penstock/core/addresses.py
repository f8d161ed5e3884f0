"""Addresses of brokers: host and port as text, and the default port and data directory.

It has no heavy imports, because `penstock broker` parses its own address with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 9092
DEFAULT_DATA_DIR: Final = Path(".penstock")


def parse_bootstrap_servers(text: str) -> list[tuple[str, int]]:
    """Parses `host:port,host:port`; the default port is 9092. Raises ValueError with a message for the user."""
    servers = [parse_host_port(part.strip()) for part in text.split(",") if part.strip()]
    if not servers:
        raise ValueError(f"'{text}' contains no server; expected HOST:PORT")
    return servers


def parse_host_port(text: str) -> tuple[str, int]:
    """Parses `host:port`, `host` or `[::1]:port`. Raises ValueError with a message for the user."""
    address = text.rpartition("://")[2]
    host, colon, port_text = address.rpartition(":")
    if not colon or (address.startswith("[") and address.endswith("]")):
        host, port_text = address, str(DEFAULT_PORT)
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    if not colon and host.isdecimal():
        raise ValueError(f"'{text}' is a port without a host; write HOST:{text}, as in 127.0.0.1:{text}")
    if not host or (":" in host and not bracketed):
        raise ValueError(f"'{text}' is not HOST:PORT (put an IPv6 address in brackets: [::1]:{DEFAULT_PORT})")
    if not (port_text.isascii() and port_text.isdecimal()) or int(port_text) > 65535:
        raise ValueError(f"'{text}' is not HOST:PORT: the port must be a number from 0 to 65535")
    return host, int(port_text)


def host_port_text(host: str, port: int) -> str:
    """The inverse of `parse_host_port`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address. An empty host means every interface."""
    return host in ("localhost", "::1") or host.startswith("127.")

"""How brokers are addressed: host and port as text, and the places where an embedded broker is looked for.

Kept apart from everything that uses it, and free of imports, because `penstock broker` reads its own address with it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

DEFAULT_PORT: Final = 9092
DEFAULT_DATA_DIR: Final = Path(".penstock")


def parse_bootstrap_servers(text: str) -> list[tuple[str, int]]:
    """`host:port,host:port`; the port is 9092 where it is left out. Raises ValueError with a sentence."""
    servers = [parse_host_port(part.strip()) for part in text.split(",") if part.strip()]
    if not servers:
        raise ValueError(f"'{text}' names no server; expected HOST:PORT")
    return servers


def parse_host_port(text: str) -> tuple[str, int]:
    """`host:port`, `host`, `[::1]:port`. Raises ValueError with a sentence."""
    address = text.rpartition("://")[2]
    host, colon, port_text = address.rpartition(":")
    if not colon or (address.startswith("[") and address.endswith("]")):
        host, port_text = address, str(DEFAULT_PORT)
    bracketed = host.startswith("[") and host.endswith("]")
    if bracketed:
        host = host[1:-1]
    if not host or (":" in host and not bracketed):
        raise ValueError(f"'{text}' is not HOST:PORT (an IPv6 address stands in brackets: [::1]:{DEFAULT_PORT})")
    if not (port_text.isascii() and port_text.isdecimal()) or int(port_text) > 65535:
        raise ValueError(f"'{text}' is not HOST:PORT: the port is a number from 0 to 65535")
    return host, int(port_text)


def host_port_text(host: str, port: int) -> str:
    """The inverse of `parse_host_port`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

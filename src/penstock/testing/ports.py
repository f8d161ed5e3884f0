"""Free ports of loopback for servers that keep theirs while they are down.

They lie outside the range from which the system takes ports for connections, so that no connection of another process
takes one while its server restarts.
"""

from __future__ import annotations

import contextlib
import random
import socket
from pathlib import Path
from typing import Final

_HOST: Final = "127.0.0.1"
_LOWEST: Final = 10_000
_RANGE: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL_FIRST: Final = 32_768  # Linux; macOS begins at 49152


def lasting_ports(count: int) -> list[int]:
    """All different. Another process may take one before it is used: a server that never ran tries others."""
    with contextlib.ExitStack() as stack:
        found: list[int] = []
        while len(found) < count:
            port = random.randrange(_LOWEST, _first_of_connections())  # noqa: S311 - which one does not matter
            listening = stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                listening.bind((_HOST, port))
                found.append(port)
        return found


def _first_of_connections() -> int:
    try:
        first = int(_RANGE.read_text().split()[0])
    except (OSError, ValueError):
        return _USUAL_FIRST
    return first if first > _LOWEST + 10_000 else _USUAL_FIRST

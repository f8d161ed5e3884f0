"""Wire clients that outlive a task: Spark uses a Python process for many, and connecting costs more than most of them.

Invariant: a client belongs to one process and one thread; a process of Spark's has one that works.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.wire.client import WireClient

_CLIENTS_MAX: Final = 4
_clients: dict[tuple[tuple[str, str], ...], WireClient] = {}


def shared_client(settings: Mapping[str, str]) -> WireClient:
    key = tuple(sorted(settings.items()))
    client = _clients.get(key)
    if client is None:
        while len(_clients) >= _CLIENTS_MAX:
            _clients.pop(next(iter(_clients))).close()
        client = _clients[key] = WireClient(settings)
    return client


def forget_client(settings: Mapping[str, str]) -> None:
    """After an error that left it in an unknown state."""
    client = _clients.pop(tuple(sorted(settings.items())), None)
    if client is not None:
        client.close()

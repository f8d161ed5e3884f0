"""How a command talks to the engine: JSON, one object a line, over a unix socket in the data directory.

    {"do": "ping"}                        -> {"engine": {"pid": 17}}
    {"do": "list"}                        -> {"pipelines": [{"name": "revenue", "state": "RUNNING", ...}]}
    {"do": "status", "name": "revenue"}   -> {"pipeline": {...}}
    {"do": "put", "desired": {...}}       -> {"pipeline": {...}}, when its desired state is durable
    {"do": "stop", "name": "revenue"}     -> {"pipeline": {...}}, when it has ended
    {"do": "restart", "name": "revenue"}  -> {"pipeline": {...}}
    {"do": "delete", "name": "revenue"}   -> {"pipeline": {...}}, as it was when it had ended
    {"do": "check", "work": {...}}        -> {"found": {"problems": [...], "notes": [...]}}
    {"do": "run", "work": {...}}          -> {"event": {...}} ..., {"exit": 0, "message": null}

A request that is refused is answered with {"error": "one line", "exit": 4}.

The connection of a run is also its life: `{"do": "stop"}` on it, or its end, stops that run and nothing else.

Owns the lines. Imports nothing of Spark: the client side runs in commands that never start one.

Invariant: a line from the other side is bounded before it is kept.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator, Mapping
from typing import Any, Final

LINE_BYTES_MAX: Final = 8 * 1024 * 1024

Message = Mapping[str, Any]


class Lines:
    """A connected socket as lines. One thread may read while others write."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._writing = threading.Lock()

    def send(self, message: Message) -> None:
        """Raises OSError when the other side is gone."""
        line = json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n"
        with self._writing:
            self._connection.sendall(line)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Messages until the other side hangs up, in whichever way. ValueError: it does not speak this protocol."""
        pending = bytearray()
        while True:
            try:
                part = self._connection.recv(65536)
            except (ConnectionError, TimeoutError):
                return
            if not part:
                return
            pending += part
            while (end := pending.find(b"\n")) >= 0:
                message = json.loads(bytes(pending[:end]))
                del pending[: end + 1]
                if not isinstance(message, dict):
                    raise ValueError("a line that is not a JSON object")
                yield message
            if len(pending) > LINE_BYTES_MAX:
                raise ValueError(f"a line of more than {LINE_BYTES_MAX} bytes")

    def close(self) -> None:
        """Also wakes the thread that reads."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

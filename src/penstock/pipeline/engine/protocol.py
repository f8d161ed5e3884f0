"""How a command talks to the engine: JSON, one object a line, over a unix socket in the data directory.

    {"do": "ping"}                                       -> {"engine": {"pid": 17}}
    {"do": "list"}                                       -> {"pipelines": [{"name": "revenue", "pid": 4711, ...}]}
    {"do": "stop", "name": "revenue"}                    -> {"stopped": true}, when it has ended
    {"do": "run", "name": .., "spec": .., "options": ..} -> {"event": {..}} .., {"exit": 0, "message": null}

The connection of a run is also its life: `{"do": "stop"}` on it, or its end, stops the pipeline and no other.

Owns the lines and the path. Imports nothing of Spark: the client side of it runs in commands that never start one.

Invariant: a line from the other side is bounded before it is kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

SOCKET_FILE: Final = "engine.sock"
LOCK_FILE: Final = "engine.lock"
SOCKET_PATH_BYTES_MAX: Final = 100  # the kernel's limit is 104 on macOS and 108 on Linux
LINE_BYTES_MAX: Final = 8 * 1024 * 1024

Message = Mapping[str, Any]


def socket_path(data_dir: Path) -> str:
    """Where the engine of this directory listens. A symbolic link leads to a shorter path where it must."""
    path = data_dir.absolute() / SOCKET_FILE
    return os.readlink(path) if path.is_symlink() else str(path)


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

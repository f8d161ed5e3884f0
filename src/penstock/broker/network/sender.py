"""Bytes leaving one connection, in order: encoded responses from memory, record batches straight from their files.

The event loop's transport only reads. Writing goes through a duplicate of its socket, because that is what lets a fetch
be answered by sendfile (the records never enter this process) and a small response leave without waiting for the loop's
next turn. What the socket does not take now waits in a queue; the loop says when there is room.

Invariant: bytes leave in the order in which they were given. Nothing is written after `close`.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from penstock.log.reader import LogSlice

# Below this a read into memory and one joint send is cheaper than a system call of its own for the slice.
SENDFILE_BYTES_MIN: Final = 16 * 1024
# What one sendfile call may move: large enough for few calls, small enough for other connections to get their turn.
SENDFILE_BYTES_MAX: Final = 1 << 20
# Linux waits for the records before it sends the header alone; elsewhere there is no such flag.
_MSG_MORE: Final[int] = getattr(socket, "MSG_MORE", 0)


Memory = bytes | bytearray | memoryview
_MEMORY_TYPES: Final = (bytearray, bytes, memoryview)


def is_memory(chunk: Memory | LogSlice) -> TypeIs[Memory]:
    return isinstance(chunk, _MEMORY_TYPES)


class ResponseSender(Protocol):
    """The way out of one connection, as the connection sees it."""

    @property
    def queued_bytes(self) -> int:
        """Of memory that the peer has not taken yet."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether the peer has been sent everything."""
        ...

    def send(self, chunks: list[Memory | LogSlice]) -> None: ...
    def close(self) -> None: ...


# From the transport's socket, the event loop, and what to call when everything is sent or the peer is gone.
NewSender = Callable[[socket.socket, asyncio.AbstractEventLoop, Callable[[], None], Callable[[], None]], ResponseSender]


class Sender:
    """Writes to a socket, and sends files by sendfile."""

    __slots__ = (
        "_closed",
        "_loop",
        "_on_drained",
        "_on_lost",
        "_queue",
        "_sent",
        "_socket",
        "_waiting",
        "queued_bytes",
    )

    def __init__(
        self,
        transport_socket: socket.socket,
        loop: asyncio.AbstractEventLoop,
        on_drained: Callable[[], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._socket = socket.socket(fileno=os.dup(transport_socket.fileno()))
        self._socket.setblocking(False)
        # Responses are sent whole; waiting to fill a segment would only add latency.
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._loop = loop
        self._on_drained = on_drained
        self._on_lost = on_lost
        self._queue: deque[Memory | LogSlice] = deque()
        self._sent = 0  # of the queue's first element
        self._waiting = False
        self._closed = False
        self.queued_bytes = 0  # of memory; slices of files hold none

    def send(self, chunks: list[Memory | LogSlice]) -> None:
        """Sends what the socket takes now and keeps the rest. Slices too small for sendfile must have been read."""
        if self._closed:
            return
        if not self._queue and len(chunks) == 1 and is_memory(chunks[0]):
            self._send_now(chunks[0])
            return
        for chunk in chunks:
            self._queue.append(chunk)
            if is_memory(chunk):
                self.queued_bytes += len(chunk)
        if not self._waiting:
            self._pump()

    @property
    def is_idle(self) -> bool:
        return not self._queue

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._waiting:
            self._loop.remove_writer(self._socket.fileno())
            self._waiting = False
        self._socket.close()
        self._queue.clear()
        self.queued_bytes = 0
        # These are the connection's, which holds this: in a circle it and its buffer would stay for the collector, who
        # comes rarely, and every peer that hangs up would cost its buffer until then.
        self._on_drained = self._on_lost = _nothing

    def _send_now(self, data: Memory) -> None:
        """The usual case: an idle connection and one small response."""
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._on_lost()
            return
        if sent < len(data):
            rest = memoryview(data)[sent:]
            self._queue.append(rest)
            self.queued_bytes += len(rest)
            self._wait_for_room()

    def _pump(self) -> None:
        """Moves the queue into the socket until one of them is exhausted."""
        queue = self._queue
        try:
            while queue:
                first = queue[0]
                moved = self._send_memory(first) if is_memory(first) else self._send_file(first)
                self._sent += moved
                if self._sent < len(first):
                    continue
                queue.popleft()
                self._sent = 0
                if is_memory(first):
                    self.queued_bytes -= len(first)
        except BlockingIOError:
            self._wait_for_room()
            return
        except OSError:
            self._on_lost()
            return
        if self._waiting:
            self._loop.remove_writer(self._socket.fileno())
            self._waiting = False
        self._on_drained()

    def _send_memory(self, chunk: Memory) -> int:
        more = _MSG_MORE if len(self._queue) > 1 else 0
        return self._socket.send(memoryview(chunk)[self._sent :] if self._sent else chunk, more)

    def _send_file(self, chunk: LogSlice) -> int:
        count = min(len(chunk) - self._sent, SENDFILE_BYTES_MAX)
        moved = os.sendfile(self._socket.fileno(), chunk.file.fd, chunk.position + self._sent, count)
        if moved == 0:
            raise OSError("a log file is shorter than the slice that is being sent")
        return moved

    def _wait_for_room(self) -> None:
        if not self._waiting:
            self._waiting = True
            self._loop.add_writer(self._socket.fileno(), self._pump)


def _nothing() -> None:
    """The connection is closed."""

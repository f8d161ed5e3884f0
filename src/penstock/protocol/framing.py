"""Splits a byte stream into frames: a four-byte size, followed by that many bytes.

Owns the memory that a connection reads into, and reuses it, because fresh memory is expensive. It knows no sockets: the
caller requests a buffer, reports how much of it was filled, and takes the complete frames:

    room = frames.get_buffer()
    frames.advance(sock.recv_into(room))
    while (frame := frames.next_frame()) is not None: ...

Invariants:
- A frame is a writable view of the buffer, valid until the next `get_buffer`.
- Memory follows the bytes that have arrived, never the size that a peer has announced: the buffer grows when it is
  full, to twice its size at most, and is released after a large frame was taken.
- No byte of a frame is moved more than a constant number of times, however small the reads.
"""

from __future__ import annotations

from mmap import MAP_ANONYMOUS, MAP_PRIVATE, mmap
from struct import Struct as Packing
from typing import Final

from penstock.core.errors import ProtocolError
from penstock.core.limits import (
    RECEIVE_BUFFER_BYTES,
    RECEIVE_BUFFER_RETAINED_BYTES_MAX,
    RECEIVE_BUFFERS_POOLED_MAX,
    REQUEST_BYTES_MAX,
)

_SIZE: Final = Packing(">i")
SIZE_BYTES: Final = 4  # of the size that stands before every frame
_NO_MEMORY: Final = memoryview(b"")


class BufferPool:
    """Receive buffers of connections that have ended, for those that come: some of their pages are there already."""

    def __init__(self, buffer_bytes: int = RECEIVE_BUFFER_BYTES, count_max: int = RECEIVE_BUFFERS_POOLED_MAX) -> None:
        self.buffer_bytes = buffer_bytes
        self._count_max = count_max
        self._free: list[memoryview] = []

    def take(self) -> memoryview:
        return self._free.pop() if self._free else untouched_memory(self.buffer_bytes)

    def give_back(self, buffer: memoryview) -> None:
        if len(buffer) == self.buffer_bytes and len(self._free) < self._count_max:
            self._free.append(buffer)


class FrameBuffer:
    """Takes its memory from the pool when it is first needed; `release` gives it back."""

    def __init__(
        self,
        frame_bytes_max: int = REQUEST_BYTES_MAX,
        *,
        pool: BufferPool | None = None,
        retained_bytes_max: int = RECEIVE_BUFFER_RETAINED_BYTES_MAX,
    ) -> None:
        self._pool = BufferPool() if pool is None else pool
        assert self._pool.buffer_bytes >= SIZE_BYTES
        self._frame_bytes_max = frame_bytes_max
        self._retained_bytes_max = max(self._pool.buffer_bytes, retained_bytes_max)
        self._view = _NO_MEMORY
        self._start = 0  # of the bytes that were not taken
        self._end = 0  # of the bytes that have arrived

    @property
    def capacity(self) -> int:
        return len(self._view)

    def allow(self, frame_bytes_max: int) -> None:
        """Frames may have up to this size from now on."""
        self._frame_bytes_max = frame_bytes_max

    @property
    def pending(self) -> int:
        """The number of bytes that have arrived and were not taken."""
        return self._end - self._start

    @property
    def incomplete_bytes(self) -> int:
        """The size of the first frame that was not taken, with its size field; 0 while it is not known."""
        if self.pending < SIZE_BYTES:
            return 0
        (size,) = _SIZE.unpack_from(self._view, self._start)
        return SIZE_BYTES + size if 0 <= size <= self._frame_bytes_max else 0

    @property
    def position(self) -> int:
        """Where the next frame begins. The difference of two positions of one read is what was taken."""
        return self._start

    @property
    def missing_bytes(self) -> int:
        """How much of the first frame has not arrived; 0 while its size is not known."""
        return max(0, self.incomplete_bytes - self.pending)

    @property
    def has_frame(self) -> bool:
        """Whether `next_frame` has something to say: a frame, or that there cannot be one."""
        if self.pending < SIZE_BYTES:
            return False
        (size,) = _SIZE.unpack_from(self._view, self._start)
        return bool(self.pending - SIZE_BYTES >= size or size > self._frame_bytes_max)

    def get_buffer(self) -> memoryview:
        """A buffer for more bytes, never empty. Frames taken earlier become invalid."""
        if self._start == self._end:
            self._start = self._end = 0
            if not self._view or len(self._view) > self._retained_bytes_max:
                self._view = self._pool.take()
        elif self._start + self._wanted() > len(self._view):
            self._make_room()
        return self._view[self._end :]

    def advance(self, count: int) -> None:
        """`count` bytes were written to the start of the buffer from `get_buffer`."""
        assert 0 <= count <= len(self._view) - self._end
        self._end += count

    def next_frame(self) -> memoryview | None:
        """The next complete frame without its size; None if more bytes are needed."""
        start = self._start + SIZE_BYTES
        if start > self._end:
            return None
        (size,) = _SIZE.unpack_from(self._view, self._start)
        if not 0 <= size <= self._frame_bytes_max:
            raise ProtocolError(f"a frame of {size} bytes; at most {self._frame_bytes_max} are allowed")
        end: int = start + size
        if end > self._end:
            return None
        self._start = end
        return self._view[start:end]

    def discard(self) -> None:
        """Drops what has arrived and was not taken."""
        self._start = self._end = 0

    def release(self) -> None:
        """Drops everything; the buffer is not used any more, and no frame of it."""
        self.discard()
        self._pool.give_back(self._view)
        self._view = _NO_MEMORY

    def _wanted(self) -> int:
        """The size of the first pending frame, including its size field, as far as it is known."""
        if self.pending < SIZE_BYTES:
            return SIZE_BYTES
        (size,) = _SIZE.unpack_from(self._view, self._start)
        wanted: int = SIZE_BYTES + size
        assert self.pending < wanted, "complete frames must be taken before more is read"
        return wanted

    def _make_room(self) -> None:
        """Moves a frame that does not fit to the front, and grows a buffer that it fills."""
        pending = self._view[self._start : self._end]
        if len(pending) == len(self._view):
            self._view = untouched_memory(min(2 * len(self._view), self._wanted()))
        elif self._start == 0:
            return
        self._view[: len(pending)] = pending
        self._start, self._end = 0, len(pending)


def untouched_memory(size: int) -> memoryview:
    """Memory whose pages cost nothing until they are written; a bytearray would fill them with zeros."""
    return memoryview(mmap(-1, size, MAP_PRIVATE | MAP_ANONYMOUS))

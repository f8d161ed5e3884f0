"""`queued.max.request.bytes`: how much memory requests that have not arrived completely may take, of all connections.

A connection reserves the size of a request when it knows it, and reads on only with the reservation. As in Kafka, a
request is let in as long as any memory is left: the limit may be exceeded by one request, and none waits for ever.

Invariant: a connection that has reserved is read from until its request is complete.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol


class MemoryWaiter(Protocol):
    def memory_reserved(self) -> None:
        """The memory that was asked for is reserved now."""
        ...


class RequestMemory:
    def __init__(self, limit_bytes: int) -> None:
        self._available_bytes = limit_bytes
        self._waiting: deque[tuple[MemoryWaiter, int]] = deque()

    def reserve(self, waiter: MemoryWaiter, size_bytes: int) -> bool:
        """Whether it is reserved at once; else the waiter is told later, in its turn."""
        if self._available_bytes <= 0 or self._waiting:
            self._waiting.append((waiter, size_bytes))
            return False
        self._available_bytes -= size_bytes
        return True

    def release(self, size_bytes: int) -> None:
        self._available_bytes += size_bytes
        while self._waiting and self._available_bytes > 0:
            waiter, wanted_bytes = self._waiting.popleft()
            self._available_bytes -= wanted_bytes
            waiter.memory_reserved()

    def abandon(self, waiter: MemoryWaiter) -> None:
        """It waits no longer."""
        self._waiting = deque(entry for entry in self._waiting if entry[0] is not waiter)

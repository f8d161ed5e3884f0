"""An answer that is not there yet: a parked fetch, a produce that waits for its fsync.

Lighter than an asyncio Future on purpose: the one listener is called at once, in the turn of the loop that completes
the answer, so that every response of one socket read can still leave in one write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar


class Deferred:
    """Completed once, with the response message; the listener is called at that moment."""

    __slots__ = ("_listener", "done", "response")

    is_barrier: ClassVar[bool] = False
    """Whether later requests of the connection wait until this one is answered."""

    def __init__(self) -> None:
        self.done = False
        self.response: Any = None
        self._listener: Callable[[], None] | None = None

    def listen(self, listener: Callable[[], None]) -> None:
        assert self._listener is None, "a deferred answer has one listener"
        self._listener = listener

    def complete(self, response: Any) -> None:
        assert not self.done, "an answer is given once"
        self.done = True
        self.response = response
        if self._listener is not None:
            self._listener()

    def abandon(self) -> None:
        """The connection is gone. A subclass that waits somewhere stops waiting."""


class Barrier(Deferred):
    """An answer that later requests of the same connection may rely on: a topic that is being created, for one.

    Kafka handles one request of a connection at a time. Here later requests are handled while an answer is outstanding;
    those behind a change of the cluster are not, so that a client finds what it asked for before.
    """

    __slots__ = ()

    is_barrier = True

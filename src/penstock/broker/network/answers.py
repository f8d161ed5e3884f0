"""What a connection keeps of the answers that it owes, and how it puts their pieces together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.broker.network.sender import SENDFILE_BYTES_MIN, is_memory

if TYPE_CHECKING:
    from penstock.broker.client_quotas import Usage
    from penstock.broker.router import Route


class Slot:
    """A request's place in the line of responses."""

    __slots__ = ("answer", "correlation_id", "received_s", "route", "version")

    def __init__(self, route: Route, version: int, correlation_id: int, answer: Any, received_s: float) -> None:
        self.route = route
        self.received_s = received_s
        self.version = version
        self.correlation_id = correlation_id
        self.answer = answer  # a response message, or a Deferred that will have one


class MeteredSlot(Slot):
    """The place of a request that counts for a quota when it is answered."""

    __slots__ = ("usage",)

    def __init__(
        self, route: Route, version: int, correlation_id: int, answer: Any, received_s: float, usage: Usage
    ) -> None:
        super().__init__(route, version, correlation_id, answer, received_s)
        self.usage = usage


def joined(chunks: list[Any]) -> list[Any]:
    """Neighbouring pieces of memory become one, and slices too small to be worth a sendfile become memory."""
    if len(chunks) == 1:
        return chunks if is_memory(chunks[0]) or len(chunks[0]) >= SENDFILE_BYTES_MIN else [chunks[0].read()]
    pieces: list[Any] = []
    memory: list[Any] = []
    for chunk in chunks:
        if is_memory(chunk):
            memory.append(chunk)
        elif len(chunk) < SENDFILE_BYTES_MIN:
            memory.append(chunk.read())
        else:
            if memory:
                pieces.append(b"".join(memory))
                memory = []
            pieces.append(chunk)
    if memory:
        pieces.append(b"".join(memory))
    return pieces

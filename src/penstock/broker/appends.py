"""Appends on their way to an acknowledgement: written together, and answered once.

`AppendRound` gathers everything that one socket read stages and writes it with one pwritev per partition.
`AppendGroup` is the part of a round that belongs to one request (a produce, a coordinator's records, the markers of a
transaction). It completes when each of its appends is acknowledged or has failed.

Must not know: what the appends contain, and what is answered.

Invariant: a group completes exactly once, whether the flusher calls back at once or later.
Invariant: errors are per append. `Append.code` says at completion whether that append is acknowledged.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.broker.deferred import Deferred
from penstock.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from penstock.broker.flush import Flusher
    from penstock.broker.partition import Append, Partition

Subject = TypeVar("Subject")


class AppendGroup(Deferred, Generic[Subject]):
    """The appends of one request. Stage them, `add` each, then pass the group to `AppendRound.acknowledge`.

    A subject is whatever the request's owner keeps for an append, such as its place in the response. The group itself
    is the Deferred: it completes with None unless a subclass completes it with a response in `finish`.
    """

    __slots__ = ("_outstanding", "_round", "appends")

    def __init__(self, append_round: AppendRound) -> None:
        # The fields of Deferred are set here, because every produce request makes one of these and a call costs more.
        self.done = False
        self.response = None
        self._listener = None
        self._round = append_round
        self._outstanding = 0
        self.appends: list[tuple[Partition, Append, Subject]] = []

    def add(self, partition: Partition, append: Append, subject: Subject) -> None:
        self._round.partitions.add(partition)
        self.appends.append((partition, append, subject))

    def written(self) -> None:
        """The round has written its bytes, or marked the appends that it could not write as failed.

        An append that waits for nothing else is acknowledged now. One whose topic asks for an fsync waits for it.
        """
        # This method holds one itself, so that a flusher that calls back at once does not complete the group early.
        self._outstanding = 1
        for partition, append, _ in self.appends:
            if not append.code and partition.must_flush:
                self._outstanding += 1
                self._round.flusher.request(partition, partial(self._flushed, append))
        if self._outstanding == 1:
            self.finish()
        else:
            self._outstanding -= 1

    def finish(self) -> None:
        """Every append is acknowledged or has failed."""
        self.complete(None)

    def _flushed(self, append: Append, failure: OSError | None) -> None:
        if failure is not None:
            append.fail(ErrorCode.KAFKA_STORAGE_ERROR, f"fsync failed: {failure.strerror}.")
        self._outstanding -= 1
        if not self._outstanding:
            self.finish()


class AppendRound:
    """Belongs to the event loop: between the first `add` to one of its groups and `write` nothing else runs."""

    __slots__ = ("_groups", "_loop", "_write_is_scheduled", "flusher", "partitions")

    def __init__(self, loop: asyncio.AbstractEventLoop, flusher: Flusher) -> None:
        self._loop = loop
        self.flusher = flusher
        self.partitions: set[Partition] = set()  # with staged batches
        self._groups: list[AppendGroup[object]] = []
        self._write_is_scheduled = False

    def acknowledge(self, group: AppendGroup[Subject]) -> None:
        """The group is complete: tell it when the round is written."""
        self._groups.append(group)  # type: ignore[arg-type]  # the round never looks at subjects

    def write(self) -> None:
        """Writes until nothing is staged: a completed group may stage further batches, such as a transaction's end."""
        while self._groups:
            partitions, self.partitions = self.partitions, set()
            groups, self._groups = self._groups, []
            for partition in partitions:
                partition.write_staged()
            for group in groups:
                group.written()

    def write_soon(self) -> None:
        """For appends outside a socket read: a connection writes its round itself, a timer's append has no reader."""
        if not self._write_is_scheduled:
            self._write_is_scheduled = True
            self._loop.call_soon(self._write_scheduled)

    def _write_scheduled(self) -> None:
        self._write_is_scheduled = False
        self.write()

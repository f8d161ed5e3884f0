"""Appends on their way to an acknowledgement: written together, and answered once.

`AppendRound` gathers everything that one socket read stages and writes it with one pwritev per partition.
`AppendGroup` is the part of a round that belongs to one request (a produce, a coordinator's records, the markers of a
transaction). It completes when each of its appends is acknowledged or has failed. An append is acknowledged when its
bytes are written, synced where the topic asks for it and, unless acks=1 does without, below the high watermark. For a
partition with one replica the write itself moves the high watermark, so that nothing is waited for.

Must not know: what the appends contain, and what is answered.

Invariant: a group completes exactly once, whether the flusher calls back at once or later.
Invariant: errors are per append. `Append.code` says at completion whether that append is acknowledged.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from penstock.broker.deferred import Deferred
from penstock.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.broker.append import Append
    from penstock.broker.flush import Flusher
    from penstock.broker.partition import Partition

Subject = TypeVar("Subject")


class AppendGroup(Deferred, Generic[Subject]):
    """The appends of one request. Stage them, `add` each, then pass the group to `AppendRound.acknowledge`.

    A subject is whatever the request's owner keeps for an append, such as its place in the response. The group itself
    is the Deferred: it completes with None unless a subclass completes it with a response in `finish`.
    """

    __slots__ = ("_awaits_replicas", "_outstanding", "_replicas", "_round", "_timeout_ms", "appends")

    def __init__(self, append_round: AppendRound, awaits_replicas: bool = True, timeout_ms: int | None = None) -> None:
        """`awaits_replicas` is acks=all; `timeout_ms` bounds the wait for the replicas."""
        # The fields of Deferred are set here, because every produce request makes one of these and a call costs more.
        self.done = False
        self.response = None
        self._listener = None
        self._round = append_round
        self._awaits_replicas = awaits_replicas
        self._timeout_ms = timeout_ms
        self._replicas: _ReplicaWait | None = None
        self._outstanding = 0
        self.appends: list[tuple[Partition, Append, Subject]] = []

    def add(self, partition: Partition, append: Append, subject: Subject) -> None:
        self._round.partitions[partition] = None
        self.appends.append((partition, append, subject))

    def written(self) -> None:
        """The round has written its bytes, or marked the appends that it could not write as failed.

        An append that waits for nothing else is acknowledged now.
        """
        # This method holds one itself, so that a flusher that calls back at once does not complete the group early.
        self._outstanding = 1
        for partition, append, _ in self.appends:
            if append.code:
                continue
            if partition.must_flush:
                self._outstanding += 1
                self._round.flusher.request(partition, partial(self._flushed, partition, append))
            elif self._awaits_replicas and partition.high_watermark < append.end_offset:
                self._await_replicas(partition, append)
        if self._outstanding == 1:
            if self._round.is_fenced is not None:
                self._check_session()
            self.finish()
        else:
            self._outstanding -= 1

    def finish(self) -> None:
        """Every append is acknowledged or has failed."""
        self.complete(None)

    def _flushed(self, partition: Partition, append: Append, failure: OSError | None) -> None:
        if failure is not None:
            append.fail(ErrorCode.KAFKA_STORAGE_ERROR, f"fsync failed: {failure.strerror}.")
        elif self._awaits_replicas and partition.high_watermark < append.end_offset and not partition.is_deleted:
            self._await_replicas(partition, append)
        self.settle_one()

    def _await_replicas(self, partition: Partition, append: Append) -> None:
        self._outstanding += 1
        if self._replicas is None:
            self._replicas = _ReplicaWait(self, self._round.loop, self._timeout_ms)
        self._replicas.add(partition, append)

    def settle_one(self) -> None:
        """One of the things that the group waits for has happened or has failed."""
        self._outstanding -= 1
        if not self._outstanding:
            if self._round.is_fenced is not None:
                self._check_session()
            self.finish()

    def _check_session(self) -> None:
        """A broker whose session may have ended acknowledges nothing: another one may lead by now."""
        assert self._round.is_fenced is not None
        if self._round.is_fenced():
            for partition, append, _ in self.appends:
                if not append.code:
                    text = f"The session of this broker may have ended; it may no longer lead {partition}."
                    append.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER, text)


class _ReplicaWait:
    """The appends of a group that followers have not confirmed yet: `Waiter` of their partitions."""

    __slots__ = ("_group", "_timer", "_waiting")

    def __init__(self, group: AppendGroup[Any], loop: asyncio.AbstractEventLoop, timeout_ms: int | None) -> None:
        self._group = group
        self._waiting: list[tuple[Partition, Append]] = []
        self._timer = None if timeout_ms is None else loop.call_later(timeout_ms / 1000, self._timed_out)

    def add(self, partition: Partition, append: Append) -> None:
        self._waiting.append((partition, append))
        partition.add_waiter(self)

    def records_arrived(self, new_bytes: int) -> None:
        """One of the partitions has another high watermark or role."""
        waiting, self._waiting = self._waiting, []
        settled = []
        for partition, append in waiting:
            if partition.is_deleted or not partition.is_leader:
                append.fail(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"This broker no longer leads {partition}.")
            elif partition.high_watermark < append.end_offset:
                if partition.leader is None or partition.leader.has_enough_in_sync:
                    self._waiting.append((partition, append))
                    continue
                text = f"{partition} has fewer replicas in sync than min.insync.replicas."
                append.fail(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, text)
            settled.append(partition)
        self._settle(settled)

    def _timed_out(self) -> None:
        waiting, self._waiting = self._waiting, []
        for partition, append in waiting:
            text = f"The in-sync replicas of {partition} did not confirm the batch in time."
            append.fail(ErrorCode.REQUEST_TIMED_OUT, text)
        self._settle([partition for partition, _ in waiting])

    def _settle(self, partitions: list[Partition]) -> None:
        still_waited_for = {partition for partition, _ in self._waiting}
        for partition in partitions:
            if partition not in still_waited_for:
                partition.remove_waiter(self)
        if not self._waiting and self._timer is not None:
            self._timer.cancel()
        for _ in partitions:
            self._group.settle_one()


class AppendRound:
    """Belongs to the event loop: between the first `add` to one of its groups and `write` nothing else runs."""

    __slots__ = ("_groups", "_write_is_scheduled", "flusher", "is_fenced", "loop", "partitions")

    def __init__(self, loop: asyncio.AbstractEventLoop, flusher: Flusher) -> None:
        self.loop = loop
        self.flusher = flusher
        self.is_fenced: Callable[[], bool] | None = None
        """Asked before each acknowledgement; None for a broker that is alone."""
        self.partitions: dict[Partition, None] = {}  # with staged batches
        self._groups: list[AppendGroup[object]] = []
        self._write_is_scheduled = False

    def acknowledge(self, group: AppendGroup[Subject]) -> None:
        """The group is complete: tell it when the round is written."""
        self._groups.append(group)  # type: ignore[arg-type]  # the round never looks at subjects

    def write(self) -> None:
        """Writes until nothing is staged: a completed group may stage further batches, such as a transaction's end."""
        while self._groups:
            partitions, self.partitions = self.partitions, {}
            groups, self._groups = self._groups, []
            for partition in partitions:
                partition.write_staged()
            for group in groups:
                group.written()

    def write_soon(self) -> None:
        """For appends outside a socket read: a connection writes its round itself, a timer's append has no reader."""
        if not self._write_is_scheduled:
            self._write_is_scheduled = True
            self.loop.call_soon(self._write_scheduled)

    def _write_scheduled(self) -> None:
        self._write_is_scheduled = False
        self.write()

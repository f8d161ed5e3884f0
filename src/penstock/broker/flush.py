"""Group commit: one fsync for all requests that arrived while the last one ran.

The fsync runs in a thread, because it may take long and the event loop must not wait for it. While it runs, further
requests gather; they share the next round.

Invariant: a callback is told of success only when everything that its partition held at the time of the request is on
the disk. After the first failure nothing more is promised: what the kernel could not write it may have dropped, so the
log directory is given up (a second fsync that succeeds would prove nothing). A file that was moved or deleted is the
failure of its partition alone, which goes offline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter

from penstock.broker.partition import Partition
from penstock.core import limits
from penstock.core.metrics import Histogram
from penstock.log.filesystem import FileMoved
from penstock.log.flushing import FlushTicket

FlushCallback = Callable[[OSError | None], None]


class Flusher:
    """Syncs the logs of one data directory."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_fatal: Callable[[OSError], None], flush_time: Histogram
    ) -> None:
        self._loop = loop
        self._flush_time = flush_time
        self._round_began_s = 0.0
        self._on_fatal = on_fatal
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="penstock-flush")
        self._partitions: dict[Partition, None] = {}
        self._callbacks: list[tuple[Partition, FlushCallback]] = []
        self._running = False
        self._failure: OSError | None = None
        self.rounds = 0

    def request(self, partition: Partition, callback: FlushCallback) -> None:
        """Calls back once what the partition's log holds now is on the disk, or with the error that prevents it."""
        if self._failure is not None:
            callback(self._failure)
            return
        self._partitions[partition] = None
        self._callbacks.append((partition, callback))
        if not self._running:
            self._running = True
            # After this turn of the loop: whatever other connections have sent by then joins the round.
            self._loop.call_soon(self._start_round)

    def close(self) -> None:
        self._thread.shutdown(wait=True)

    def _start_round(self) -> None:
        partitions, self._partitions = self._partitions, {}
        callbacks, self._callbacks = self._callbacks, []
        self._round_began_s = perf_counter()
        tickets = []
        try:
            for partition in partitions:
                if not partition.is_deleted and partition.offline_reason is None:
                    tickets += self._begin_flush(partition)
        except OSError as error:
            self._finish_round([], callbacks, error)
            return
        future = self._loop.run_in_executor(self._thread, _sync, [ticket for _, ticket in tickets])
        future.add_done_callback(lambda done: self._synced(tickets, callbacks, done.result()))

    def _begin_flush(self, partition: Partition) -> list[tuple[Partition, FlushTicket]]:
        try:
            return [(partition, partition.log.begin_flush())]
        except FileNotFoundError as error:
            partition.take_offline(error)
            return []

    def _synced(
        self,
        tickets: list[tuple[Partition, FlushTicket]],
        callbacks: list[tuple[Partition, FlushCallback]],
        results: list[OSError | None],
    ) -> None:
        synced, failure = [], None
        for (partition, ticket), result in zip(tickets, results, strict=True):
            if isinstance(result, FileMoved) and not partition.is_deleted:
                moved = partition.log.moved_file(ticket)
                if moved is not None:
                    partition.take_offline(FileMoved(moved))
            elif result is not None and not partition.is_deleted:
                # A topic that was deleted meanwhile has no files any more, and no append of it was promised to survive.
                failure = failure or result
            if partition.offline_reason is None:
                synced.append((partition, ticket))
        self._finish_round(synced, callbacks, failure)

    def _finish_round(
        self,
        tickets: list[tuple[Partition, FlushTicket]],
        callbacks: list[tuple[Partition, FlushCallback]],
        failure: OSError | None,
    ) -> None:
        self.rounds += 1
        self._flush_time.observe(perf_counter() - self._round_began_s)
        if failure is not None:
            self._failure = failure
            callbacks += self._callbacks
            self._callbacks = []
            self._partitions.clear()
            self._on_fatal(failure)
        else:
            for partition, ticket in tickets:
                partition.flushed(ticket)
        for partition, callback in callbacks:
            callback(failure or partition.offline_reason)
        if self._callbacks:
            self._start_round()
        else:
            self._running = False


def sync_all(tickets: list[FlushTicket]) -> None:
    """Syncs many logs at once, and waits: the disk sorts the writes of many threads better than those of one."""
    if tickets:
        with ThreadPoolExecutor(max_workers=limits.SYNC_THREADS_MAX, thread_name_prefix="penstock-sync") as threads:
            for _ in threads.map(FlushTicket.sync, tickets):
                pass


def _sync(tickets: list[FlushTicket]) -> list[OSError | None]:
    return [_failure_of(ticket) for ticket in tickets]


def _failure_of(ticket: FlushTicket) -> OSError | None:
    try:
        ticket.sync()
    except OSError as error:
        return error
    return None

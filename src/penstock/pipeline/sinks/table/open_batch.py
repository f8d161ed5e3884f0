"""One attempt of a micro-batch as a database transaction that is open while its tasks run.

The rows that tasks send go into the table by one bulk load, which ends when the commit asks for it; then the ledger is
written, in the same transaction. So each row is written once, and the database works at the same time as Spark.

Owns the transaction and the thread that it runs in. It must never know how rows arrive here.

Invariants:
- The transaction commits only on request, and holds exactly the rows that the tasks' outputs count.
- A task that fails ends the whole attempt: a bulk load cannot take rows back.
- The ledger's row is locked at the end only. A long batch never delays a run that takes over.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final

from penstock.pipeline import crash_points
from penstock.pipeline.sinks.table.database import Database
from penstock.pipeline.sinks.table.errors import StagingLost, TableSinkError
from penstock.pipeline.sinks.table.landing import Landing, LandingStore
from penstock.pipeline.sinks.table.receiver_messages import CommitBatch
from penstock.pipeline.sinks.table.task_output import inline_batches

_BATCHES_WAITING_MAX: Final = 4
_LOOKING_UP_S: Final = 0.2  # how often a waiting thread checks whether the attempt is over


class OpenBatch:
    """`connected` lends a connection that answers, for the length of the transaction."""

    def __init__(
        self, attempt: str, store: LandingStore, connected: Callable[[], AbstractContextManager[Database]]
    ) -> None:
        self.attempt = attempt
        self._store = store
        self._connected = connected
        self._waiting: queue.Queue[Any] = queue.Queue(_BATCHES_WAITING_MAX)
        self._commit_request: CommitBatch | None = None
        self._given_up = False
        self._database: Database | None = None
        self._landing: Landing | None = None
        self._begun = threading.Event()
        self._over = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"penstock-batch-{attempt}", daemon=True)
        self._thread.start()

    # For the threads of tasks and of the commit

    def wait_until_begun(self) -> None:
        self._begun.wait()
        self._require_open()

    def take(self, batches: Iterator[Any], task: int) -> None:
        """Returns when all of them are queued. Raises the transaction's failure, if it has failed."""
        assert self._landing is not None
        for batch in self._landing.arranged(batches, task):
            self._put(batch)

    def commit(self, request: CommitBatch) -> None:
        self._commit_request = request
        for output in request.outputs:
            self.take(inline_batches(output.rows), output.task)
        self._put(None)
        self._over.wait()
        if self._failure is not None:
            raise self._failure

    def give_up(self) -> None:
        """Rolls back as soon as the thread is not inside a statement."""
        self._given_up = True

    def end(self, patience_s: float) -> None:
        """Waits for the thread, and cancels its statement if it does not end: the table may be locked, for example.

        A thread that is inside a driver's C code when the process exits may crash the process.
        """
        self._thread.join(patience_s)
        database = self._database
        if self._thread.is_alive() and database is not None:
            database.cancel()
            self._thread.join(patience_s)

    def _put(self, batch: Any) -> None:
        while True:
            self._require_open()
            try:
                return self._waiting.put(batch, timeout=_LOOKING_UP_S)
            except queue.Full:
                continue

    def _require_open(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._given_up or self._over.is_set():
            raise _given_up()

    # In the thread

    def _run(self) -> None:
        try:
            with self._connected() as database:
                self._database = database
                self._transact(database)
        except _AlreadyThereError:
            pass
        except TableSinkError as failure:
            self._failure = failure
        except Exception as failure:  # reported by the commit
            self._failure = StagingLost(f"{type(failure).__name__} in the batch's transaction: {failure}")
        finally:
            self._database = None
            self._over.set()
            self._begun.set()

    def _transact(self, database: Database) -> None:
        with database.transaction():
            self._landing = self._store.landing(database)
            self._begun.set()
            landed = self._store.land(database, self._landing, self._taken())
            request = self._commit_request
            assert request is not None
            outputs, landing = request.outputs, self._landing
            if not self._store.record_once(
                database,
                outputs,
                request.batch_id,
                lambda: self._store.settle(database, landing, landed, outputs),
            ):
                raise _AlreadyThereError
        crash_points.reached("table.after_database_commit")

    def _taken(self) -> Iterator[Any]:
        while True:
            if self._given_up:
                raise _given_up()
            try:
                batch = self._waiting.get(timeout=_LOOKING_UP_S)
            except queue.Empty:
                continue
            if batch is None:
                return
            yield batch
            crash_points.reached("table.landing")


class _AlreadyThereError(Exception):
    """The ledger holds the batch already: the rows are rolled back, and the commit succeeds."""


def _given_up() -> StagingLost:
    return StagingLost("another task of the batch has failed; the batch runs again")

"""Receives rows in the driver: on one machine, tasks send their rows here, and one transaction holds them all.

With exactly_once, rows would otherwise be staged: written once by the tasks, each in a transaction of its own, and once
more by the commit. Tasks of a cluster cannot reach a socket on the driver's machine, and stage their rows.

Owns the socket and the connection that successive batches use. The transaction is in `open_batch.py`.

Invariant: only the latest attempt of a batch is open.
"""

from __future__ import annotations

import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.pipeline.sinks.table.column_types import columns_of
from penstock.pipeline.sinks.table.connections import patiently
from penstock.pipeline.sinks.table.database import Database
from penstock.pipeline.sinks.table.errors import StagingLost, TableSinkError
from penstock.pipeline.sinks.table.landing import LandingStore
from penstock.pipeline.sinks.table.open_batch import OpenBatch
from penstock.pipeline.sinks.table.receiver_messages import (
    AbortBatch,
    BeginRows,
    CommitBatch,
    receive_message,
    received_batches,
    send_message,
)
from penstock.pipeline.sinks.table.target import TableTarget
from penstock.pipeline.spark.session import is_on_one_machine, scratch_directory

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CONNECTIONS_WAITING_MAX: Final = 128
_END_S_MAX: Final = 10.0


def with_row_receiver(target: TableTarget, rows: DataFrame, resources: ExitStack) -> TableTarget:
    """The target with the address of a row receiver, which the resources close, if rows can take that way to it."""
    store = target.dialect.store(target, columns_of(rows.schema, target.json_columns))
    if (
        not isinstance(store, LandingStore)
        or target.guarantee != "exactly_once"
        or not is_on_one_machine(rows.sparkSession)
    ):
        return target
    try:
        receiver = resources.enter_context(RowReceiver(store))
    except OSError:
        return target  # TMPDIR, for example, is too long for the path of a socket: tasks stage, as on a cluster
    return replace(target, receiver=receiver.path)


class RowReceiver:
    def __init__(self, store: LandingStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._open: OpenBatch | None = None
        self._idle: Database | None = None
        self._closed = False
        # Closed to other users, as mkdtemp makes them.
        self._directory = Path(tempfile.mkdtemp(prefix="penstock-rows-", dir=scratch_directory()))
        self.path: str = str(self._directory / "rows")
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listener.bind(self.path)
        except OSError:
            self.close()
            raise
        self._listener.listen(_CONNECTIONS_WAITING_MAX)
        threading.Thread(target=self._listen, name="penstock-row-receiver", daemon=True).start()

    def __enter__(self) -> RowReceiver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """A batch that is open is rolled back."""
        with self._lock:
            self._closed = True
            if self._open is not None:
                self._open.give_up()
            if self._idle is not None:
                self._idle.close()
                self._idle = None
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits in accept
        self._listener.close()
        shutil.rmtree(self._directory, ignore_errors=True)
        if self._open is not None:
            self._open.end(_END_S_MAX)

    # Clients, each in a thread of its own

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), name="penstock-row-receiver", daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):  # a client that is gone needs no answer
            try:
                message = receive_message(connection)
                if isinstance(message, BeginRows):
                    self._take_rows(connection, message)
                elif isinstance(message, CommitBatch):
                    self._batch_of(message.attempt).commit(message)
                elif isinstance(message, AbortBatch):
                    self._abort(message.attempt)
            except TableSinkError as failure:
                send_message(connection, failure)
            except EOFError:
                return
            else:
                send_message(connection, None)

    def _take_rows(self, connection: socket.socket, begin: BeginRows) -> None:
        batch = self._entered(begin.attempt)
        try:
            batch.wait_until_begun()
            send_message(connection, None)
            batch.take(received_batches(connection, self._store.rows.schema), begin.task)
        except BaseException:
            batch.give_up()
            raise

    # Batches

    def _entered(self, attempt: str) -> OpenBatch:
        with self._lock:
            if self._closed:
                raise StagingLost("the pipeline is stopping")
            if self._open is None or self._open.attempt != attempt:
                if self._open is not None:
                    self._open.give_up()
                self._open = OpenBatch(attempt, self._store, self._connection)
            return self._open

    def _batch_of(self, attempt: str) -> OpenBatch:
        with self._lock:
            if self._open is None or self._open.attempt != attempt:
                raise StagingLost("the transaction of the batch is no longer open; the batch runs again")
            return self._open

    def _abort(self, attempt: str) -> None:
        with self._lock:
            if self._open is not None and self._open.attempt == attempt:
                self._open.give_up()

    @contextmanager
    def _connection(self) -> Iterator[Database]:
        """A connection that works, of a pipeline that this run still owns; kept for the next batch unless it fails."""
        with self._lock:
            database, self._idle = self._idle, None

        def answering() -> Database:
            nonlocal database
            if self._closed:
                raise StagingLost("the pipeline is stopping")
            try:
                if database is None:
                    database = self._store.dialect.connect(self._store.target.url)
                    self._store.introduce(database)
                self._store.ledger.read(database)
            except TableSinkError:
                if database is not None:
                    database.close()
                database = None
                raise
            return database

        database = patiently(answering)
        try:
            yield database
        except BaseException:
            database.close()
            raise
        with self._lock:
            if self._closed:
                database.close()
            else:
                self._idle = database

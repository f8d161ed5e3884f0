"""Results and offsets in a SQLite database.

Owns connection and transaction. It must never know of consumers.

Invariant: while a handler runs, nothing but this module can end the transaction: SQLite itself refuses.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import Any, Final

from penstock.client.delivery.database_store import DatabaseStore

_BUSY_TIMEOUT_S: Final = 30.0


class SQLiteStore(DatabaseStore):
    """`database` is a path, or a connection that nobody else uses during `run`. The handler gets a connection."""

    def __init__(self, database: str | PathLike[str] | sqlite3.Connection) -> None:
        self._database = database
        self._connection: sqlite3.Connection | None = None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._connected()
        # At once for writing: one that begins with reading is refused later if somebody else has written meanwhile.
        connection.execute("BEGIN IMMEDIATE")
        try:
            connection.set_authorizer(_refuse_transaction_control)
            try:
                yield connection
            finally:
                connection.set_authorizer(None)
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and connection is not self._database:
            connection.close()

    def create_table(self, connection: sqlite3.Connection, statement: str) -> None:
        connection.execute(statement)

    def execute(self, connection: sqlite3.Connection, statement: str, values: Sequence[Any]) -> sqlite3.Cursor:
        return connection.execute(statement, values)

    def _connected(self) -> sqlite3.Connection:
        if self._connection is None:
            if isinstance(self._database, sqlite3.Connection):
                self._connection = self._database
            else:
                self._connection = sqlite3.connect(self._database, timeout=_BUSY_TIMEOUT_S, isolation_level=None)
        return self._connection


def _refuse_transaction_control(action: int, *_details: str | None) -> int:
    """BEGIN, COMMIT and ROLLBACK are the loop's: a handler that commits would part effect and progress."""
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_TRANSACTION else sqlite3.SQLITE_OK

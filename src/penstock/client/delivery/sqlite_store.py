"""Stores results and offsets in a SQLite database.

Owns the connection and the transaction. It must never know consumers.

Invariant: while a handler runs, only this module can end the transaction; an authorizer makes SQLite reject the rest.
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
    """`database` is a path, or a connection that is not used elsewhere during `run`; the handler receives it."""

    def __init__(self, database: str | PathLike[str] | sqlite3.Connection) -> None:
        self._database = database
        self._connection: sqlite3.Connection | None = None

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._connected()
        # A write transaction from the start: one that begins by reading fails later if another one has written.
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

    def database_errors(self) -> type[Exception]:
        return sqlite3.Error

    def location(self, connection: sqlite3.Connection) -> str:
        (path,) = (file for _number, name, file in connection.execute("PRAGMA database_list") if name == "main")
        return f"sqlite:///{path}"

    def has_table(self, connection: sqlite3.Connection, name: str) -> bool:
        return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (name,)).fetchone())

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
    """Only the loop may BEGIN, COMMIT or ROLLBACK: a commit in the handler would separate effect and progress."""
    return sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_TRANSACTION else sqlite3.SQLITE_OK

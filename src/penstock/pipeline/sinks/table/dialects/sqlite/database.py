"""Connections to SQLite: through ADBC where rows are loaded in bulk, through Python's own sqlite3 in the driver.

ADBC's driver carries a SQLite of its own. Two of them in one process take each other's file locks away, because a
process that closes a file loses all of its locks on it. So the driver, where a user's program may well have the same
file open with sqlite3, uses sqlite3 too; ADBC is for the processes that Spark starts for us.

Invariant: a transaction takes the write lock at its beginning. One that begins with reading would fail later if another
connection wrote in between.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from penstock.pipeline.sinks.table.database import Database
from penstock.pipeline.sinks.table.errors import (
    DatabaseAccessDenied,
    DatabaseFull,
    DatabaseNotWritable,
    DatabaseUnavailable,
    RowRefused,
    TableRefused,
    TableSinkError,
    one_line,
)

_BUSY_TIMEOUT_MS: Final = 60_000
_ROWS_OF_A_BATCH: Final = 2**30


class SqliteDatabase(Database):
    begin = "BEGIN IMMEDIATE"

    def __init__(self, path: str, connection: object, failures: tuple[type[Exception], ...]) -> None:
        super().__init__(connection, failures)
        self._path = path

    def stream(self, statement: str) -> Iterator[Any]:
        """One batch: ADBC takes the types of columns from the rows of the first."""
        with self._cursor() as cursor:
            cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": _ROWS_OF_A_BATCH})
            cursor.execute(statement)
            try:
                yield from cursor.fetch_record_batch()
            except (OSError, pa.ArrowException) as failure:
                raise self.explained(failure) from None

    def explained(self, failure: Exception) -> TableSinkError:
        text = one_line(str(failure))
        name = f"SQLite database {self._path}"
        for words, kind, advice in _MEANINGS:
            if any(word in text.lower() for word in words):
                return kind(f"{name}: {_without_query(text)}", advice)
        return TableRefused(f"{name}: {_without_query(text)}")


_MEANINGS: Final[tuple[tuple[tuple[str, ...], type[TableSinkError], str], ...]] = (
    (
        ("database or disk is full",),
        DatabaseFull,
        "make room and start again, nothing of the batch was kept",
    ),
    (
        ("readonly", "read-only", "permission denied", "unable to open"),
        DatabaseNotWritable,
        "the file and its directory must exist and be writable",
    ),
    (("not authorized",), DatabaseAccessDenied, "the file does not allow the operation"),
    (
        ("locked", "busy"),
        DatabaseUnavailable,
        f"it was so for more than {_BUSY_TIMEOUT_MS // 1000} s: which program holds a transaction open?",
    ),
    (("disk i/o error",), DatabaseUnavailable, ""),
    (("not a database", "malformed"), TableRefused, "it is damaged, or another kind of file"),
    (
        ("no such table", "no such column", "has no column", "on conflict clause does not match", "no column named"),
        TableRefused,
        "the table was changed while the pipeline ran: put back what it had and start again, nothing is lost",
    ),
    (
        ("constraint failed",),
        RowRefused,
        "a row breaks a constraint of the table: filter such rows, or change the constraint",
    ),
)


def _without_query(text: str) -> str:
    """ADBC repeats the statement behind its message."""
    message = re.split(r" query(?: was)?: ", text, maxsplit=1)[0].split("[SQLite] ")[-1]
    return re.sub(r"^(?:[A-Z_]+: )?failed to prepare(?: query)?: ", "", message, flags=re.IGNORECASE).rstrip(".")


def connect_in_driver(path: str) -> SqliteDatabase:
    """Creates the database if there is none; a new one lets readers go on while we write (write-ahead log)."""
    is_new = not os.path.exists(path)
    try:
        connection = sqlite3.connect(path, timeout=_BUSY_TIMEOUT_MS / 1000, isolation_level=None)
    except sqlite3.Error as failure:
        raise DatabaseNotWritable(
            f"SQLite database {path}: {failure}; the file and its directory must exist and be writable"
        ) from None
    database = SqliteDatabase(path, _Sqlite3Connection(connection), (sqlite3.Error,))
    try:
        if is_new:
            database.query("PRAGMA journal_mode = WAL")
    except TableSinkError:
        database.close()
        raise
    return database


class _Sqlite3Connection:
    """sqlite3's connection, whose cursors do not mind None for no values, as ADBC's do not."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def cursor(self) -> _Sqlite3Cursor:
        return _Sqlite3Cursor(self._connection)

    def close(self) -> None:
        self._connection.close()


class _Sqlite3Cursor(sqlite3.Cursor):
    def execute(self, statement: str, values: object = None) -> sqlite3.Cursor:  # type: ignore[override]
        return super().execute(statement, values or ())  # type: ignore[arg-type]


def connect_in_worker(path: str) -> SqliteDatabase:
    import adbc_driver_manager
    import adbc_driver_sqlite.dbapi

    if not os.path.exists(path):
        raise TableRefused(
            f"SQLite database {path} is not on this machine; a Spark cluster needs postgresql, or a shared directory"
        )
    failures = (adbc_driver_manager.Error,)
    try:
        connection = adbc_driver_sqlite.dbapi.connect(path, autocommit=True)
    except failures as failure:
        raise DatabaseNotWritable(f"SQLite database {path}: {one_line(str(failure))}") from None
    database = SqliteDatabase(path, connection, failures)
    database.query(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
    return database


def read_table(path: str, quoted_name: str) -> Any:
    """All rows, as an Arrow table. Raises what the driver raises. SQLite would create a missing database."""
    from adbc_driver_sqlite import dbapi

    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no database {path}")
    with dbapi.connect(path) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {quoted_name}")  # noqa: S608 (the name is quoted)
        return cursor.fetch_arrow_table()

"""Connections to MariaDB and MySQL through PyMySQL.

Owns the settings of a session and what the server's error numbers mean for a pipeline.

Invariants:
- A session is strict: a value that does not fit is an error, never cut or replaced.
- CREATE, ALTER and DROP TABLE commit the open transaction, so none of them runs in one. Temporary tables may.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa

from penstock.pipeline.declaration.redaction import redacted_url
from penstock.pipeline.sinks.table.database import Database
from penstock.pipeline.sinks.table.dialects.mariadb.bulk_insert import insert_statements
from penstock.pipeline.sinks.table.errors import (
    DatabaseAccessDenied,
    DatabaseFull,
    DatabaseUnavailable,
    RowRefused,
    TableRefused,
    TableSinkError,
    one_line,
)

_DEFAULT_PORT: Final = 3306
_CONNECT_TIMEOUT_S: Final = 10
_CREATION_LOCK_S: Final = 60
_ROWS_FETCHED: Final = 10_000
_STATEMENT_BYTES_MAX: Final = 4 * 1024 * 1024
_SESSION: Final = (
    "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES,NO_ZERO_DATE,NO_ZERO_IN_DATE,"
    "ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00'",
    # Gap locks of the default level let two tasks that stage deadlock; nothing here reads a row twice.
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
)
_CHANGED: Final = "the table was changed while the pipeline ran: put back what it had and start again, nothing is lost"
_VALUE: Final = "a row does not fit its column: convert or filter it in the transform, or widen the column"
_CONSTRAINT: Final = "a row breaks a constraint of the table: filter such rows, or change the constraint"
_GRANT: Final = "GRANT it to the user of the URL"
_ROOM: Final = "make room and start again, nothing of the batch was kept"
_ACCOUNT: Final = "check the user and the password of the URL"
_RETRIED: Final = "tried again"
_MEANINGS: Final[tuple[tuple[frozenset[int], type[TableSinkError], str], ...]] = (
    # Client errors: cannot connect, server has gone away, connection lost.
    (frozenset({0, 2002, 2003, 2006, 2013, 2014, 2055}), DatabaseUnavailable, _RETRIED),
    # Deadlock, lock wait timeout, too many connections, shutdown, killed, interrupted.
    (
        frozenset({1040, 1053, 1077, 1078, 1079, 1158, 1159, 1160, 1161, 1203, 1205, 1206, 1213, 1317, 1927, 3100}),
        DatabaseUnavailable,
        _RETRIED,
    ),
    (frozenset({1045, 1130, 1251, 1698}), DatabaseAccessDenied, _ACCOUNT),
    (frozenset({1044, 1142, 1143, 1227, 1370}), DatabaseAccessDenied, _GRANT),
    (frozenset({1290, 1792, 1836}), DatabaseAccessDenied, "the server is read-only; name the one that takes writes"),
    (frozenset({1021, 1114, 1041}), DatabaseFull, _ROOM),
    (frozenset({1049}), TableRefused, "create the database, or correct the URL"),
    (frozenset({1264, 1265, 1292, 1366, 1406, 1411, 1441, 1525}), RowRefused, _VALUE),
    (frozenset({1048, 1062, 1216, 1217, 1364, 1451, 1452, 1586, 3819, 4025}), RowRefused, _CONSTRAINT),
    (frozenset({1054, 1136, 1146, 1932}), TableRefused, _CHANGED),
    (frozenset({1153}), RowRefused, "raise max_allowed_packet, or shorten the row in the transform"),
)
# Messages that quote a value, which may be anything: only the words around it are shown.
_QUOTED_VALUE: Final = re.compile(r"(Duplicate entry|value:?) '.*' for (key|column|function)", re.DOTALL)
_UNKNOWN_HOST: Final = re.compile(r"Name or service not known|nodename nor servname|No address associated")


class MariaDbDatabase(Database):
    begin = "BEGIN"

    def __init__(self, shown: str, connection: Any, failures: tuple[type[Exception], ...], url: str) -> None:
        super().__init__(connection, failures)
        self._shown = shown
        self._url = url

    def placed(self, statement: str) -> str:
        return statement.replace("%", "%%").replace("?", "%s")

    @contextmanager
    def creating(self) -> Iterator[None]:
        """Not a transaction, which CREATE TABLE would commit: a named lock of the server."""
        ((granted,),) = self.query(f"SELECT GET_LOCK('penstock.creation', {_CREATION_LOCK_S})")
        if not granted:
            raise DatabaseUnavailable(f"{self._shown}: another session creates tables for too long; {_RETRIED}")
        try:
            yield
        finally:
            with suppress(TableSinkError):
                self.query("SELECT RELEASE_LOCK('penstock.creation')")

    def stream(self, statement: str) -> Iterator[Any]:
        from pymysql.cursors import SSCursor

        with self._cursor(SSCursor) as cursor:
            cursor.execute(statement)
            names = [field[0] for field in cursor.description]
            while rows := cursor.fetchmany(_ROWS_FETCHED):
                arrays = [
                    _array(values, field)
                    for values, field in zip(zip(*rows, strict=True), cursor.description, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, names=names)

    def result_fields(self, statement: str) -> list[Any]:
        """The columns of a query as the protocol describes them: name, type_code, flags, charsetnr, length, scale."""
        with self._cursor() as cursor:
            cursor.execute(statement)
            return list(cursor._result.fields)  # a description has no character set

    def ingest(
        self, table: str, batches: Any, *, schema: str | None = None, temporary: bool = False, create: bool = False
    ) -> int:
        assert not create
        arrow_schema, iterator = batches
        quoted = ".".join(_quoted(part) for part in (schema, table) if part is not None)
        head = f"INSERT INTO {quoted} ({', '.join(map(_quoted, arrow_schema.names))})"
        rows = 0
        for batch in iterator:
            for statement in insert_statements(head, batch, self._statement_bytes_max):
                with self._cursor() as cursor:
                    cursor.execute(statement)
            rows += batch.num_rows
        return rows

    @cached_property
    def _statement_bytes_max(self) -> int:
        ((allowed,),) = self.query("SELECT @@max_allowed_packet")
        return min(_STATEMENT_BYTES_MAX, int(allowed) - 1024)

    @cached_property
    def exact_collation(self) -> str:
        """Under which two texts are equal only if they are the same, trailing spaces included."""
        ((version,),) = self.query("SELECT version()")
        return "utf8mb4_nopad_bin" if "MariaDB" in version else "utf8mb4_0900_bin"

    @cached_property
    def session_id(self) -> int:
        ((number,),) = self.query("SELECT connection_id()")
        return int(number)

    def cancel(self) -> None:
        with suppress(TableSinkError):
            other = connect(self._url)
            try:
                other.execute(f"KILL QUERY {self._connection.thread_id()}")
            finally:
                other.close()

    def explained(self, failure: Exception) -> TableSinkError:
        return _explained(self._shown, failure)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _explained(shown: str, failure: Exception) -> TableSinkError:
    number = failure.args[0] if failure.args and isinstance(failure.args[0], int) else 0
    text = str(failure.args[1]) if len(failure.args) > 1 else ""
    message = one_line(_QUOTED_VALUE.sub(r"\1 for \2", text)) or "the connection is closed"
    if _UNKNOWN_HOST.search(message):
        return TableRefused(f"{shown}: {message}", "correct the URL")
    for numbers, kind, advice in _MEANINGS:
        if number in numbers:
            return kind(f"{shown}: {message}", advice)
    return TableRefused(f"{shown}: {message} (error {number})")


def connect(url: str) -> MariaDbDatabase:
    shown = f"MariaDB {redacted_url(url)}"
    connection, failures = _connection(shown, url)
    database = MariaDbDatabase(shown, connection, failures, url)
    try:
        for statement in _SESSION:
            database.execute(statement)
    except TableSinkError:
        database.close()
        raise
    return database


def _connection(shown: str, url: str) -> tuple[Any, tuple[type[Exception], ...]]:
    import pymysql

    parts = urlsplit(url)
    failures = (pymysql.err.MySQLError,)
    try:
        connection = pymysql.connect(
            host=parts.hostname or "127.0.0.1",
            port=parts.port or _DEFAULT_PORT,
            user=unquote(parts.username or ""),
            password=unquote(parts.password or ""),
            database=unquote(parts.path.strip("/")),
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=_CONNECT_TIMEOUT_S,
            **dict(parse_qsl(parts.query)),
        )
    except failures as failure:
        raise _explained(shown, failure) from None
    except RuntimeError as missing:  # a way to authenticate that needs another package
        raise DatabaseAccessDenied(f"{shown}: {one_line(str(missing))}; install it, or connect with ssl_ca") from None
    return connection, failures


def read_table(url: str, quoted_name: str) -> Any:
    """All rows, as an Arrow table. Raises what the driver raises, or a TableSinkError."""
    connection, _ = _connection(f"MariaDB {redacted_url(url)}", url)
    with connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {quoted_name}")  # noqa: S608 (the name is quoted)
        rows = cursor.fetchall()
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(cursor.description)
        arrays = [_array(values, field) for values, field in zip(columns, cursor.description, strict=True)]
        return pa.table(arrays, names=[field[0] for field in cursor.description])


def _array(values: tuple[Any, ...], field: tuple[Any, ...]) -> Any:
    """The type is the column's, not that of the values: a table may have no rows, or NULLs only."""
    from pymysql.constants import FIELD_TYPE

    integers = {FIELD_TYPE.TINY, FIELD_TYPE.SHORT, FIELD_TYPE.INT24, FIELD_TYPE.LONG, FIELD_TYPE.YEAR}
    _, code, _, _, precision, scale, _ = field
    if code in integers:
        return pa.array(values, pa.int64())
    if code == FIELD_TYPE.LONGLONG:
        is_unsigned = any(value is not None and value > 2**63 - 1 for value in values)
        return pa.array(values, pa.decimal128(20, 0) if is_unsigned else pa.int64())
    if code in (FIELD_TYPE.FLOAT, FIELD_TYPE.DOUBLE):
        return pa.array(values, pa.float64())
    if code in (FIELD_TYPE.DECIMAL, FIELD_TYPE.NEWDECIMAL):
        return pa.array(values, pa.decimal128(min(38, max(precision, scale, 1)), scale))
    if code == FIELD_TYPE.DATE:
        return pa.array(values, pa.date32())
    if code in (FIELD_TYPE.DATETIME, FIELD_TYPE.TIMESTAMP):
        return pa.array(values, pa.timestamp("us"))
    if code == FIELD_TYPE.TIME:
        return pa.array(values, pa.duration("us"))
    first = next((value for value in values if value is not None), "")
    return pa.array(values, pa.binary() if isinstance(first, bytes) else pa.string())

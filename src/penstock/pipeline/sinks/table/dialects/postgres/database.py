"""Connections to PostgreSQL through ADBC, whose COPY takes whole Arrow columns.

Owns what PostgreSQL's SQLSTATEs mean for a pipeline.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from penstock.pipeline.declaration.redaction import redacted_url
from penstock.pipeline.sinks.table.database import Database
from penstock.pipeline.sinks.table.errors import (
    DatabaseAccessDenied,
    DatabaseFull,
    DatabaseUnavailable,
    RowRefused,
    TableRefused,
    TableSinkError,
    one_line,
)

_CHANGED: Final = "the table was changed while the pipeline ran: put back what it had and start again, nothing is lost"
_VALUE: Final = "a row does not fit its column: convert or filter it in the transform, or widen the column"
_CONSTRAINT: Final = "a row breaks a constraint of the table: filter such rows, or change the constraint"
_GRANT: Final = "GRANT it to the user of the URL"
_ROOM: Final = "make room and start again, nothing of the batch was kept"
_ZERO_BYTE: Final = "a text holds a zero byte, which PostgreSQL cannot store: remove it in the transform"
# The longest beginning of a SQLSTATE that is listed decides.
_MEANINGS: Final[dict[str, tuple[type[TableSinkError], str]]] = {
    "08": (DatabaseUnavailable, "tried again"),
    "22": (RowRefused, _VALUE),
    "22021": (RowRefused, _ZERO_BYTE),
    "23": (RowRefused, _CONSTRAINT),
    "25006": (DatabaseAccessDenied, "the server is read-only; name the one that takes writes"),
    "28": (DatabaseAccessDenied, "check the user and the password of the URL"),
    "3D000": (TableRefused, "create the database, or correct the URL"),
    "3F": (TableRefused, "create the schema, or correct the table's name"),
    "40": (DatabaseUnavailable, "tried again"),
    "42": (TableRefused, _CHANGED),
    "42501": (DatabaseAccessDenied, _GRANT),
    "53": (DatabaseUnavailable, "tried again"),
    "53100": (DatabaseFull, _ROOM),
    "55P03": (DatabaseUnavailable, "tried again"),
    "57": (DatabaseUnavailable, "tried again"),
}
# A refused connection has no SQLSTATE; what it is not, is a server that is away, starting or overloaded.
_AT_CONNECTING: Final[tuple[tuple[str, type[TableSinkError], str], ...]] = (
    (
        r"authentication failed|no password supplied|pg_hba\.conf|permission denied|role \"",
        DatabaseAccessDenied,
        "check the user and the password of the URL",
    ),
    (r"database \"", TableRefused, "create the database, or correct the URL"),
    (r"invalid|missing|could not translate host name", TableRefused, "correct the URL"),
)
# Any number will do that all of us agree upon: "penstock" as eight bytes.
_CREATION_LOCK: Final = int.from_bytes(b"penstock", "big")
# ADBC looks a table up before COPY, and its failure to find it has no SQLSTATE.
_NO_RELATION: Final = re.compile(r'^(?:relation|column) ".*" (?:of relation ".*" )?does not exist')
_FATAL: Final = re.compile(r"FATAL: +(.*)")


class PostgresDatabase(Database):
    begin = "BEGIN"

    def __init__(self, shown: str, connection: Any, failures: tuple[type[Exception], ...]) -> None:
        super().__init__(connection, failures)
        self._shown = shown

    @contextmanager
    def creating(self) -> Iterator[None]:
        with self.transaction():
            self.query(f"SELECT pg_advisory_xact_lock({_CREATION_LOCK})")
            yield

    def placed(self, statement: str) -> str:
        numbers = count(1)
        return re.sub(r"\?", lambda _: f"${next(numbers)}", statement)

    def explained(self, failure: Exception) -> TableSinkError:
        state = getattr(failure, "sqlstate", None) or ""
        # Only the first line: the others may quote the row.
        message = one_line(_primary_message(failure))
        for length in (5, 2):
            if found := _MEANINGS.get(state[:length]):
                kind, advice = found
                return kind(f"{self._shown}: {message}", advice)
        if state:
            return TableRefused(f"{self._shown}: {message} (SQLSTATE {state})")
        if _NO_RELATION.search(message):
            return TableRefused(f"{self._shown}: {message}", _CHANGED)
        return DatabaseUnavailable(f"{self._shown} went away: {message}")


def _primary_message(failure: Exception) -> str:
    for name, value in getattr(failure, "details", None) or ():
        if name in ("PG_DIAG_MESSAGE_PRIMARY", b"PG_DIAG_MESSAGE_PRIMARY"):
            return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
    text = str(failure)
    found = re.search(r"(?:ERROR|FATAL|PANIC): +([^\n]*)", text)
    return found[1] if found else text.split("\n", 1)[0]


def connect(url: str) -> PostgresDatabase:
    import adbc_driver_manager
    import adbc_driver_postgresql.dbapi  # type: ignore[import-untyped]

    shown = f"PostgreSQL {redacted_url(url)}"
    failures = (adbc_driver_manager.Error,)
    try:
        connection = adbc_driver_postgresql.dbapi.connect(url, autocommit=True)
    except failures as failure:
        raise _not_connected(shown, url, str(failure)) from None
    database = PostgresDatabase(shown, connection, failures)
    # libpq prints notices, such as 'relation already exists', to standard error.
    database.execute("SET client_min_messages TO warning")
    return database


def _not_connected(shown: str, url: str, text: str) -> TableSinkError:
    password = urlsplit(url).password
    for secret in {password, unquote(password)} if password else ():
        text = text.replace(secret, "***")
    fatal = _FATAL.search(text)
    reason = fatal[1] if fatal else one_line(text.removeprefix("IO: [libpq] Failed to connect: "))
    for words, kind, advice in _AT_CONNECTING:
        if re.search(words, reason):
            return kind(f"{shown}: {reason}", advice)
    return DatabaseUnavailable(f"{shown} does not answer: {reason}")


def read_table(url: str, quoted_name: str) -> Any:
    """All rows, as an Arrow table. Raises what the driver raises."""
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(url) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {quoted_name}")  # noqa: S608 (the name is quoted)
        return cursor.fetch_arrow_table()

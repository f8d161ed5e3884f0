"""Stores results and offsets in a PostgreSQL database through psycopg 3, which is imported on first use.

Owns the connection and the transaction. It must never know consumers.

Invariant: while a handler runs, only this module can end the transaction; psycopg rejects anything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from penstock.client.delivery.database_store import DatabaseStore
from penstock.core.errors import InvalidClientSetting

if TYPE_CHECKING:
    import psycopg

# An arbitrary number that all consumers share: "penstock" as eight bytes.
_CREATION_LOCK: Final = int.from_bytes(b"penstock", "big")


class PostgresStore(DatabaseStore):
    """`database` is a connection string, or a connection not used elsewhere during `run`; the handler receives it."""

    def __init__(self, database: str | psycopg.Connection[Any]) -> None:
        self._database = database
        self._connection: psycopg.Connection[Any] | None = None

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        connection = self._connected()
        with connection.transaction():
            yield connection

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None and connection is not self._database:
            connection.close()

    def database_errors(self) -> type[Exception]:
        import psycopg

        return psycopg.Error

    def location(self, connection: psycopg.Connection[Any]) -> str:
        info = connection.info
        host = f"[{info.host}]" if ":" in info.host else info.host
        # A directory of sockets is a parameter of the URL, because it contains slashes.
        if host.startswith("/"):
            return f"postgresql:///{info.dbname}?host={host}&port={info.port}"
        return f"postgresql://{host}:{info.port}/{info.dbname}"

    def has_table(self, connection: psycopg.Connection[Any], name: str) -> bool:
        found = connection.execute("SELECT to_regclass(%s)", (name,)).fetchone()
        return found is not None and found[0] is not None

    def create_table(self, connection: psycopg.Connection[Any], statement: str) -> None:
        # IF NOT EXISTS checks and creates in two steps, and another consumer may create the table between them.
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATION_LOCK,))
        connection.execute(statement)

    def execute(self, connection: psycopg.Connection[Any], statement: str, values: Sequence[Any]) -> Any:
        return connection.execute(statement.replace("?", "%s"), values)

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is None or self._connection.closed:
            try:
                import psycopg
            except ImportError as missing:
                raise InvalidClientSetting("PostgresStore requires psycopg: pip install 'psycopg[binary]'") from missing
            if isinstance(self._database, psycopg.Connection):
                self._connection = self._database
            else:
                self._connection = psycopg.connect(self._database, autocommit=True)
        return self._connection

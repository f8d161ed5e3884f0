"""SQLite, which lets one connection write at a time: staged rows are Arrow files beside the database.

Dates, times and timestamps are milliseconds, as the JDBC driver of SQLite writes them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.connect.connectors.jdbc.dialects.dialect import (
    MICRO_TIME,
    MICRO_TIMESTAMP,
    JdbcDialect,
    StagedColumn,
    TableColumn,
    staged_values,
    staging_declaration,
    with_staging_names,
)
from penstock.connect.connectors.jdbc.table_names import Identifiers, TableName
from penstock.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type
from penstock.pipeline.sinks.table.dialects.dialect import Dialect
from penstock.pipeline.sinks.table.dialects.sqlite.dialect import SqliteDialect, sqlite_path
from penstock.pipeline.sinks.table.errors import DatabaseFull, DatabaseNotWritable, StagingLost

if TYPE_CHECKING:
    from penstock.pipeline.sinks.table.database import Database

_DAY_MS: Final = 86_400_000
_LOGICAL: Final = (DECIMAL, DATE, TIME, TIMESTAMP, MICRO_TIME, MICRO_TIMESTAMP)
_TYPES: Final = {
    Type.INT8: "INTEGER",
    Type.INT16: "INTEGER",
    Type.INT32: "INTEGER",
    Type.INT64: "INTEGER",
    Type.FLOAT32: "REAL",
    Type.FLOAT64: "REAL",
    Type.BOOLEAN: "INTEGER",
    Type.STRING: "TEXT",
    Type.BYTES: "BLOB",
}


class SqliteJdbcDialect(JdbcDialect):
    base: ClassVar[Dialect] = SqliteDialect()
    subprotocols: ClassVar[tuple[str, ...]] = ("sqlite",)
    class_names: ClassVar[tuple[str, ...]] = ("SqliteDatabaseDialect",)
    is_file: ClassVar[bool] = True

    def connect(self, url: str, timezone: str) -> Database:
        if not self.base.is_there(url):
            self.base.connect_in_driver(url).close()  # creates it
        return super().connect(url, timezone)

    def check_reachable(self, url: str, timezone: str) -> None:
        if self.base.is_there(url):
            super().check_reachable(url, timezone)
        elif not os.access(os.path.dirname(sqlite_path(url)), os.W_OK):
            raise DatabaseNotWritable(
                f"SQLite database {sqlite_path(url)}: its directory does not exist or is read-only"
            )

    def declared(self, schema: Schema, *, is_key: bool) -> str | None:
        return "NUMERIC" if schema.name in _LOGICAL else _TYPES.get(schema.type)

    def loaded(self, schema: Schema, values: pa.Array, timezone: str) -> pa.Array:
        if schema.name == DECIMAL:
            return super().loaded(schema, values, timezone).cast(pa.string())
        if schema.name == DATE:
            return pc.multiply(values.cast(pa.int64()), _DAY_MS)
        if schema.name in (TIME, TIMESTAMP):
            return values.cast(pa.int64())
        if schema.name in (MICRO_TIME, MICRO_TIMESTAMP):
            return pc.divide(values.cast(pa.int64()), 1000)
        return values

    def columns(self, database: Database, table: TableName) -> Sequence[TableColumn] | None:
        # Of each column: its name, declared type, NOT NULL, default, place in the primary key, and whether generated.
        found = database.query(f"PRAGMA table_xinfo({self.base.quoted_text(table.name)})")
        return [
            TableColumn(
                name=name,
                declared=declared,
                is_nullable=not not_null and not primary,
                has_default=default is not None or bool(hidden) or (bool(primary) and declared.upper() == "INTEGER"),
            )
            for _, name, declared, not_null, default, primary, hidden in found
        ] or None

    def table_kind(self, database: Database, table: TableName) -> str | None:
        statement = "SELECT type FROM sqlite_master WHERE lower(name) = lower(?) AND type IN ('table', 'view')"
        found = database.query(statement, (table.name,))
        return str(found[0][0]).upper() if found else None

    # Staging

    def stage(self, database: Database, url: str, name: str, columns: Sequence[StagedColumn], rows: pa.Table) -> None:
        path = self._path(url, name)
        schema, batches = with_staging_names(rows)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
        except PermissionError as failure:
            raise DatabaseNotWritable(f"rows cannot be staged in {path}: {failure.strerror}") from None
        except OSError as failure:
            raise DatabaseFull(f"rows cannot be staged in {path}: {failure.strerror or failure}") from None

    def load_session_table(self, database: Database, name: str, columns: Sequence[StagedColumn], rows: pa.Table) -> str:
        quoted = self.base.quoted(name)
        database.execute(f"DROP TABLE IF EXISTS temp.{quoted}")
        database.execute(f"CREATE TEMPORARY TABLE {quoted} ({staging_declaration(columns)})")
        if rows.num_rows:
            database.ingest(name, with_staging_names(rows), temporary=True)
        return f"temp.{quoted}"

    def staged_rows(self, database: Database, url: str, name: str, columns: Sequence[StagedColumn], count: int) -> str:
        try:
            with pa.OSFile(self._path(url, name), "rb") as file, pa.ipc.open_stream(file) as reader:
                rows = reader.read_all()
        except (OSError, pa.ArrowInvalid) as failure:
            raise StagingLost(f"staged rows cannot be read ({failure}); the batch runs again") from None
        if rows.num_rows != count:
            raise StagingLost(f"{rows.num_rows} of {count} staged rows are there; the batch runs again")
        return self.load_session_table(database, "penstock_staged", columns, rows)

    def discard(self, database: Database, url: str, name: str) -> None:
        with suppress(OSError):
            os.remove(self._path(url, name))
        with suppress(OSError):  # others may be in it
            os.rmdir(os.path.dirname(self._path(url, name)))

    def discard_all(self, database: Database, url: str, prefix: str) -> None:
        shutil.rmtree(os.path.dirname(self._path(url, prefix)), ignore_errors=True)

    def _path(self, url: str, name: str) -> str:
        """A directory for all names that begin like a connector's: `penstock_staging_<connector>_...`."""
        connector = name.split("_")[2]
        return os.path.join(f"{sqlite_path(url)}-penstock-connect-{connector}", f"{name}.arrow")

    # Moving rows

    def insert(self, ids: Identifiers, table: TableName, columns: Sequence[StagedColumn], source: str) -> str:
        # Without WHERE, SQLite takes ON CONFLICT for the condition of a join.
        return f"{super().insert(ids, table, columns, source)} WHERE true"

    def delete(self, ids: Identifiers, table: TableName, columns: Sequence[StagedColumn], source: str) -> str:
        key = ", ".join(ids.written(column.name) for column in columns)
        values = ", ".join(staged_values(columns))
        return f"DELETE FROM {ids.table(table)} WHERE ({key}) IN (SELECT {values} FROM {source})"  # noqa: S608

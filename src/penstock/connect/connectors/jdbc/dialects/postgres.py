"""PostgreSQL. Rows arrive by COPY in UNLOGGED staging tables, which cost no write-ahead log.

A crash of the server empties them, which the count of rows finds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa

from penstock.connect.connectors.jdbc.dialects.dialect import (
    JSON_TEXT,
    MICRO_TIME,
    MICRO_TIMESTAMP,
    UUID_TEXT,
    ZONED,
    JdbcDialect,
    StagedColumn,
    TableColumn,
    UrlOption,
    same_key,
    staging_declaration,
    with_staging_names,
)
from penstock.connect.connectors.jdbc.table_names import Identifiers, TableName
from penstock.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Schema, Type
from penstock.pipeline.sinks.table.dialects.dialect import Dialect
from penstock.pipeline.sinks.table.dialects.postgres.dialect import PostgresDialect
from penstock.pipeline.sinks.table.errors import StagingLost, TableSinkError

if TYPE_CHECKING:
    from penstock.pipeline.sinks.table.database import Database

_LOGICAL: Final = {
    DECIMAL: "numeric",
    DATE: "date",
    TIME: "time",
    TIMESTAMP: "timestamp",
    MICRO_TIME: "time",
    MICRO_TIMESTAMP: "timestamp",
}
_FROM_TEXT: Final = {ZONED: "timestamptz", JSON_TEXT: "jsonb", UUID_TEXT: "uuid"}
"""Staged as text, which the database parses on its way into the target."""
_TYPES: Final = {
    Type.INT8: "smallint",
    Type.INT16: "smallint",
    Type.INT32: "integer",
    Type.INT64: "bigint",
    Type.FLOAT32: "real",
    Type.FLOAT64: "double precision",
    Type.BOOLEAN: "boolean",
    Type.STRING: "text",
    Type.BYTES: "bytea",
}
_COLUMNS: Final = """
SELECT a.attname::text, format_type(a.atttypid, -1), (NOT a.attnotnull)::int, (a.atthasdef OR a.attidentity <> '')::int,
       CASE WHEN a.atttypid = 'numeric'::regtype AND a.atttypmod > 0 THEN ((a.atttypmod - 4) >> 16) & 65535 END,
       CASE WHEN a.atttypid = 'numeric'::regtype AND a.atttypmod > 0 THEN (a.atttypmod - 4) & 2047 END,
       a.attgenerated::text, t.typtype = 'e'
FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid
WHERE a.attrelid = to_regclass({name}) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum"""
_KINDS: Final = {"r": "TABLE", "f": "TABLE", "p": "PARTITIONED TABLE", "v": "VIEW", "m": "VIEW"}
# What COPY writes alike: the declared type of staging, and those of a target.
_SAME_IN_COPY: Final = {
    "timestamp": ("timestamp without time zone",),
    "time": ("time without time zone",),
    "text": ("text", "character varying"),
}


def _search_path(value: str) -> Mapping[str, str]:
    return {"options": f"-csearch_path={value}"}


def _ssl(value: str) -> Mapping[str, str]:
    return {"sslmode": "verify-full"} if value in ("", "true") else {}


def _same(name: str) -> UrlOption:
    return lambda value: {name: value}


class PostgresJdbcDialect(JdbcDialect):
    base: ClassVar[Dialect] = PostgresDialect()
    subprotocols: ClassVar[tuple[str, ...]] = ("postgresql",)
    class_names: ClassVar[tuple[str, ...]] = ("PostgreSqlDatabaseDialect", "PostgresDatabaseDialect")
    url_options: ClassVar[Mapping[str, UrlOption]] = {
        "sslmode": _same("sslmode"),
        "sslrootcert": _same("sslrootcert"),
        "sslcert": _same("sslcert"),
        "sslkey": _same("sslkey"),
        "ssl": _ssl,
        "currentSchema": _search_path,
        "ApplicationName": _same("application_name"),
        "connectTimeout": _same("connect_timeout"),
    }
    # libpq waits for a host that does not answer for as long as the kernel does.
    default_options: ClassVar[Mapping[str, str]] = {"connect_timeout": "10"}
    tuning_options: ClassVar[frozenset[str]] = frozenset({
        "reWriteBatchedInserts",
        "stringtype",
        "prepareThreshold",
        "preparedStatementCacheQueries",
        "preparedStatementCacheSizeMiB",
        "defaultRowFetchSize",
        "tcpKeepAlive",
        "loginTimeout",
        "socketTimeout",
        "binaryTransfer",
        "logUnclosedConnections",
    })  # fmt: skip

    def connect(self, url: str, timezone: str) -> Database:
        database = super().connect(url, timezone)
        try:
            # How a time without zone becomes an instant, if a column of the target is one.
            database.execute(f"SET TIME ZONE {self.base.quoted_text(timezone)}")
        except TableSinkError:
            database.close()
            raise
        return database

    def introduce(self, database: Database, name: str, run: str) -> None:
        session = self.base.quoted_text(f"{name} {run[:12]}")
        database.query(f"SELECT set_config('application_name', {session}, false)")

    def take_over(self, database: Database, name: str, run: str) -> None:
        self.introduce(database, name, run)
        database.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"  # noqa: S608 (names are quoted)
            " WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid()"
            f" AND starts_with(application_name, {self.base.quoted_text(name + ' ')})"
        )

    def declared(self, schema: Schema, *, is_key: bool) -> str | None:
        if schema.name in _FROM_TEXT:
            return _FROM_TEXT[schema.name]
        if schema.name in _LOGICAL:
            return _LOGICAL[schema.name]
        if schema.type is Type.ARRAY:
            assert schema.value_schema is not None
            element = self.declared(schema.value_schema, is_key=False)
            return None if element is None or schema.value_schema.type is Type.ARRAY else f"{element}[]"
        return _TYPES.get(schema.type)

    def staged(self, schema: Schema) -> str:
        return "text" if schema.name in _FROM_TEXT else super().staged(schema)

    def loaded(self, schema: Schema, values: pa.Array, timezone: str) -> pa.Array:
        if schema.type is Type.INT8:
            return values.cast(pa.int16())
        if schema.type is Type.ARRAY:
            assert schema.value_schema is not None
            elements = self.loaded(schema.value_schema, values.values, timezone)
            made = pa.ListArray.from_arrays(values.offsets, elements)
            return made if values.null_count == 0 else _with_nulls_of(values, made)
        return super().loaded(schema, values, timezone)

    def columns(self, database: Database, table: TableName) -> Sequence[TableColumn] | None:
        found = database.query(_COLUMNS.format(name=self._text(table)))
        return [
            TableColumn(
                name=name,
                declared=declared,
                is_nullable=bool(is_nullable),
                has_default=bool(has_default) or bool(generated),
                value=f"CAST({{}} AS {declared})",
                precision=precision,
                scale=scale,
                is_enum=bool(is_enum),
            )
            for name, declared, is_nullable, has_default, precision, scale, generated, is_enum in found
        ] or None

    def table_kind(self, database: Database, table: TableName) -> str | None:
        found = database.query(f"SELECT relkind::text FROM pg_class WHERE oid = to_regclass({self._text(table)})")  # noqa: S608
        return _KINDS.get(found[0][0]) if found else None

    def _text(self, table: TableName) -> str:
        return self.base.quoted_text(Identifiers(self.base).table(table))

    # Staging

    def stage(self, database: Database, url: str, name: str, columns: Sequence[StagedColumn], rows: pa.Table) -> None:
        with database.transaction():
            database.execute(f"CREATE UNLOGGED TABLE {self.base.quoted(name)} ({staging_declaration(columns)})")
            database.ingest(name, with_staging_names(rows))

    def load_session_table(self, database: Database, name: str, columns: Sequence[StagedColumn], rows: pa.Table) -> str:
        quoted = self.base.quoted(name)
        database.execute(f"CREATE TEMPORARY TABLE {quoted} ({staging_declaration(columns)}) ON COMMIT DROP")
        database.ingest(name, with_staging_names(rows), temporary=True)
        return f"pg_temp.{quoted}"

    def copy_to_session_table(self, database: Database, name: str, query: str) -> str:
        quoted = self.base.quoted(name)
        database.execute(f"CREATE TEMPORARY TABLE {quoted} ON COMMIT DROP AS {query}")
        return f"pg_temp.{quoted}"

    def drop_session_table(self, database: Database, table: str) -> None:
        """The end of the transaction does it."""

    def staged_rows(self, database: Database, url: str, name: str, columns: Sequence[StagedColumn], count: int) -> str:
        quoted = self.base.quoted(name)
        ((oid,),) = database.query(f"SELECT to_regclass({self.base.quoted_text(quoted)})::oid::bigint")
        found = database.query(f"SELECT count(*) FROM {quoted}")[0][0] if oid is not None else 0  # noqa: S608
        if found != count:
            raise StagingLost(f"{found} of {count} staged rows are there; the batch runs again")
        return quoted

    def discard(self, database: Database, url: str, name: str) -> None:
        database.execute(f"DROP TABLE IF EXISTS {self.base.quoted(name)}")

    def discard_all(self, database: Database, url: str, prefix: str) -> None:
        found = database.query(
            "SELECT c.relname::text FROM pg_class c WHERE c.relkind = 'r'"  # noqa: S608 (names are quoted)
            f" AND c.relnamespace = current_schema()::regnamespace"
            f" AND starts_with(c.relname, {self.base.quoted_text(prefix)})"
        )
        for (name,) in found:
            self.discard(database, url, name)

    def is_same(self, staged: str, target: str) -> bool:
        return target in _SAME_IN_COPY.get(staged, (staged,))

    def delete(self, ids: Identifiers, table: TableName, columns: Sequence[StagedColumn], source: str) -> str:
        same = same_key(ids, columns, [column.name for column in columns], "target", "staged.")
        return f"DELETE FROM {ids.table(table)} AS target USING {source} AS staged WHERE {same}"  # noqa: S608


def _with_nulls_of(values: pa.Array, made: pa.Array) -> pa.Array:
    """A list array made of offsets has no nulls of its own."""
    return pa.ListArray.from_arrays(values.offsets, made.values, mask=values.is_null())

"""MariaDB and MySQL. Rows arrive by multi-row INSERTs; CREATE and DROP TABLE commit, so none runs in a transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa

from penstock.connect.connectors.jdbc.dialects.dialect import (
    JSON_TEXT,
    MICRO_TIME,
    MICRO_TIMESTAMP,
    JdbcDialect,
    StagedColumn,
    TableColumn,
    UrlOption,
    same_key,
    staged_values,
    staging_declaration,
    with_staging_names,
)
from penstock.connect.connectors.jdbc.table_names import Identifiers, TableName
from penstock.connect.data.schema import DATE, DECIMAL, DECIMAL_SCALE, TIME, TIMESTAMP, Schema, Type
from penstock.pipeline.sinks.table.dialects.dialect import Dialect
from penstock.pipeline.sinks.table.dialects.mariadb.dialect import MariaDbDialect
from penstock.pipeline.sinks.table.errors import StagingLost, TableSinkError

if TYPE_CHECKING:
    from penstock.pipeline.sinks.table.database import Database

_LOGICAL: Final = {
    DATE: "date",
    TIME: "time(3)",
    TIMESTAMP: "datetime(3)",
    MICRO_TIME: "time(6)",
    MICRO_TIMESTAMP: "datetime(6)",
    JSON_TEXT: "json",
}
_TYPES: Final = {
    Type.INT8: "tinyint",
    Type.INT16: "smallint",
    Type.INT32: "int",
    Type.INT64: "bigint",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "tinyint",
    Type.STRING: "longtext",
    Type.BYTES: "longblob",
}
_KEY_TYPES: Final = {Type.STRING: "varchar(255)", Type.BYTES: "varbinary(255)"}  # an index takes no longer ones
_SESSION_NAME_S: Final = 10
_DECIMAL_SCALE_MAX: Final = 38
_COLUMNS: Final = """
SELECT column_name, data_type, is_nullable = 'YES', column_default IS NOT NULL OR extra <> '', numeric_precision,
       numeric_scale, collation_name, column_type LIKE '%unsigned%', column_type
FROM information_schema.columns WHERE {where} ORDER BY ordinal_position"""


def _ca(value: str) -> Mapping[str, str]:
    return {"ssl_ca": value}


class MariaDbJdbcDialect(JdbcDialect):
    base: ClassVar[Dialect] = MariaDbDialect()
    subprotocols: ClassVar[tuple[str, ...]] = ("mysql", "mariadb")
    class_names: ClassVar[tuple[str, ...]] = ("MySqlDatabaseDialect", "MariaDbDatabaseDialect")
    url_options: ClassVar[Mapping[str, UrlOption]] = {"serverSslCert": _ca}
    tuning_options: ClassVar[frozenset[str]] = frozenset({
        "useSSL",
        "serverTimezone",
        "connectionTimeZone",
        "characterEncoding",
        "useUnicode",
        "rewriteBatchedStatements",
        "allowPublicKeyRetrieval",
        "zeroDateTimeBehavior",
        "autoReconnect",
        "nullCatalogMeansCurrent",
        "nullNamePatternMatchesAll",
        "useLegacyDatetimeCode",
        "useCursorFetch",
        "defaultFetchSize",
        "cachePrepStmts",
        "useServerPrepStmts",
        "useBulkStmts",
        "connectTimeout",
        "socketTimeout",
        "tcpKeepAlive",
    })  # fmt: skip

    def connect(self, url: str, timezone: str) -> Database:
        database = super().connect(url, timezone)
        if timezone != "UTC":
            with suppress(TableSinkError):  # a server knows the names of zones only if an administrator loaded them
                database.execute(f"SET SESSION time_zone = {self.base.quoted_text(timezone)}")
        return database

    def introduce(self, database: Database, name: str, run: str) -> None:
        database.query(f"SELECT GET_LOCK({self.base.quoted_text(name)}, 0)")  # a run that has it ends this one anyway

    def take_over(self, database: Database, name: str, run: str) -> None:
        ((session,),) = database.query(f"SELECT IS_USED_LOCK({self.base.quoted_text(name)})")
        if session is not None:
            database.execute(f"KILL CONNECTION {int(session)}")
        database.query(f"SELECT GET_LOCK({self.base.quoted_text(name)}, {_SESSION_NAME_S})")

    def declared(self, schema: Schema, *, is_key: bool) -> str | None:
        if schema.name == DECIMAL:
            scale = int(schema.parameter(DECIMAL_SCALE) or 0)
            return f"decimal(65,{scale})" if 0 <= scale <= _DECIMAL_SCALE_MAX else None
        if schema.name in _LOGICAL:
            return _LOGICAL[schema.name]
        return (_KEY_TYPES.get(schema.type) if is_key else None) or _TYPES.get(schema.type)

    def columns(self, database: Database, table: TableName) -> Sequence[TableColumn] | None:
        found = database.query(_COLUMNS.format(where=self._where(table)))
        return [
            TableColumn(
                name=name,
                declared="bool" if column_type == "tinyint(1)" else data_type,
                is_nullable=bool(is_nullable),
                has_default=bool(has_default),
                # Two columns of different collations cannot be compared.
                value=f"CONVERT({{}} USING {collation.partition('_')[0]}) COLLATE {collation}" if collation else "{}",
                precision=precision,
                scale=scale,
                is_unsigned=bool(is_unsigned),
            )
            for (
                name,
                data_type,
                is_nullable,
                has_default,
                precision,
                scale,
                collation,
                is_unsigned,
                column_type,
            ) in found
        ] or None

    def table_kind(self, database: Database, table: TableName) -> str | None:
        found = database.query(f"SELECT table_type FROM information_schema.tables WHERE {self._where(table)}")  # noqa: S608
        return ("VIEW" if "VIEW" in found[0][0] else "TABLE") if found else None

    def _where(self, table: TableName) -> str:
        schema = "DATABASE()" if table.schema is None else self.base.quoted_text(table.schema)
        return f"table_schema = {schema} AND table_name = {self.base.quoted_text(table.name)}"

    # Staging

    def stage(self, database: Database, url: str, name: str, columns: Sequence[StagedColumn], rows: pa.Table) -> None:
        declaration = staging_declaration(columns)
        database.execute(f"CREATE TABLE {self.base.quoted(name)} ({declaration}){self.base.table_options}")
        with database.transaction():
            database.ingest(name, with_staging_names(rows))

    def load_session_table(self, database: Database, name: str, columns: Sequence[StagedColumn], rows: pa.Table) -> str:
        quoted = self.base.quoted(name)
        declaration = staging_declaration(columns)
        database.execute(f"CREATE TEMPORARY TABLE {quoted} ({declaration}){self.base.table_options}")
        database.ingest(name, with_staging_names(rows))
        return quoted

    def drop_session_table(self, database: Database, table: str) -> None:
        database.execute(f"DROP TEMPORARY TABLE {table}")  # which does not commit

    def staged_rows(self, database: Database, url: str, name: str, columns: Sequence[StagedColumn], count: int) -> str:
        quoted = self.base.quoted(name)
        there = self.table_kind(database, TableName(name)) is not None
        found = database.query(f"SELECT count(*) FROM {quoted}")[0][0] if there else 0  # noqa: S608
        if found != count:
            raise StagingLost(f"{found} of {count} staged rows are there; the batch runs again")
        return quoted

    def discard(self, database: Database, url: str, name: str) -> None:
        database.execute(f"DROP TABLE IF EXISTS {self.base.quoted(name)}")

    def discard_all(self, database: Database, url: str, prefix: str) -> None:
        found = database.query(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()"  # noqa: S608
            f" AND LEFT(table_name, {len(prefix)}) = {self.base.quoted_text(prefix)}"
        )
        for (name,) in found:
            self.discard(database, url, name)

    # Moving rows

    def on_conflict(self, ids: Identifiers, key: Sequence[str], changed: Sequence[str]) -> str:
        assigned = ", ".join(f"{ids.written(name)} = VALUES({ids.written(name)})" for name in changed or key[:1])
        return f"ON DUPLICATE KEY UPDATE {assigned}"

    def update(
        self, ids: Identifiers, table: TableName, columns: Sequence[StagedColumn], key: Sequence[str], source: str
    ) -> str:
        assigned = ", ".join(
            f"target.{ids.written(column.name)} = {value}"
            for column, value in zip(columns, staged_values(columns, "staged."), strict=True)
            if column.name not in key
        )
        same = same_key(ids, columns, key, "target", "staged.")
        return f"UPDATE {ids.table(table)} target JOIN {source} staged ON {same} SET {assigned}"  # noqa: S608

    def delete(self, ids: Identifiers, table: TableName, columns: Sequence[StagedColumn], source: str) -> str:
        same = same_key(ids, columns, [column.name for column in columns], "target", "staged.")
        return f"DELETE target FROM {ids.table(table)} target JOIN {source} staged ON {same}"

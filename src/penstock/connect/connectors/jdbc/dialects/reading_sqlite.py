"""SQLite as the source reads it. One transaction writes at a time: rows become visible in the order of their numbers.

A column of SQLite may hold values of any type: SQL casts them to the declared one. Timestamps are milliseconds since
1970, or text as SQLite's functions write it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.connect.connectors.jdbc.dialects.dialect import JdbcDialect, TableColumn
from penstock.connect.connectors.jdbc.dialects.reading import NumericMapping, Reading, SourceTable, numeric
from penstock.connect.connectors.jdbc.dialects.sqlite import SqliteJdbcDialect
from penstock.connect.connectors.jdbc.table_names import TableName
from penstock.connect.data import schema as s
from penstock.connect.data.schema import DATE, TIME, TIMESTAMP, Schema

if TYPE_CHECKING:
    from penstock.pipeline.sinks.table.database import Database

_DAY_MS: Final = 86_400_000
_DECIMAL: Final = re.compile(r"(?:DECIMAL|NUMERIC)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_MILLISECONDS: Final = (
    "(CASE typeof({0}) WHEN 'text' THEN CAST(round((julianday({0}) - 2440587.5) * 86400000) AS INTEGER) ELSE {0} END)"
)
_ROWS_LOOKED_AT: Final = 1000
# SQLite's own rules, in their order, behind the names that mean more.
_EXACT: Final[dict[str, tuple[Schema, str]]] = {
    "BOOLEAN": (s.BOOLEAN, "CAST({} AS INTEGER)"),
    "TINYINT": (s.INT8, "CAST({} AS INTEGER)"),
    "SMALLINT": (s.INT16, "CAST({} AS INTEGER)"),
    "DATE": (s.date(), _MILLISECONDS),
    "TIME": (s.time(), "CAST({} AS INTEGER)"),
    "DATETIME": (s.timestamp(), _MILLISECONDS),
    "TIMESTAMP": (s.timestamp(), _MILLISECONDS),
}
_AFFINITIES: Final[tuple[tuple[tuple[str, ...], Schema, str], ...]] = (
    (("INT",), s.INT64, "CAST({} AS INTEGER)"),
    (("CHAR", "CLOB", "TEXT"), s.STRING, "CAST({} AS TEXT)"),
    (("BLOB",), s.BYTES, "CAST({} AS BLOB)"),
)
_INFERRED: Final = {pa.int64(): "INTEGER", pa.float64(): "REAL", pa.binary(): "BLOB"}


class SqliteReading(Reading):
    dialect: ClassVar[JdbcDialect] = SqliteJdbcDialect()

    def tables(self, database: Database, kinds: Sequence[str], schemas: str | None) -> list[SourceTable]:
        wanted = ", ".join(f"'{kind.lower()}'" for kind in kinds)
        found = database.query(
            f"SELECT name FROM sqlite_master WHERE type IN ({wanted}) AND name NOT LIKE 'sqlite~_%' ESCAPE '~'"  # noqa: S608
            " AND name NOT LIKE 'penstock~_%' ESCAPE '~' ORDER BY name"
        )
        return [SourceTable(TableName(name)) for (name,) in found]

    def query_columns(self, database: Database, query: str) -> Sequence[TableColumn]:
        """By the values of the first rows: an expression has no declared type. The join gives a query without rows one
        of nulls, so that its columns have names."""
        looked_at = f"SELECT q.* FROM (SELECT 1) LEFT JOIN ({query}) q LIMIT {_ROWS_LOOKED_AT}"  # noqa: S608
        found = list(database.stream(looked_at))
        return [
            TableColumn(field.name, _INFERRED.get(field.type, "TEXT"), is_nullable=True)
            for batch in found[:1]
            for field in batch.schema
        ]

    def typed(self, column: TableColumn, mapping: NumericMapping) -> tuple[Schema, str] | None:
        declared = column.declared.upper()
        if declared.partition("(")[0].strip() in _EXACT:
            return _EXACT[declared.partition("(")[0].strip()]
        for words, schema, select in _AFFINITIES:
            if any(word in declared for word in words):
                return schema, select
        if found := _DECIMAL.fullmatch(declared):
            decimal = numeric(int(found[1]), int(found[2] or 0), mapping)
            if decimal.name is not None:
                return decimal, f"CASE WHEN {{0}} IS NOT NULL THEN printf('%.{int(found[2] or 0)}f', {{0}}) END"
            return decimal, "CAST({} AS REAL)" if decimal == s.FLOAT64 else "CAST({} AS INTEGER)"
        return (s.BYTES, "CAST({} AS BLOB)") if not declared else (s.FLOAT64, "CAST({} AS REAL)")

    def unloaded(self, schema: Schema, values: pa.Array, timezone: str) -> pa.Array:
        if values.null_count == len(values):
            return pa.nulls(len(values), schema.arrow_type)
        if schema.name == DATE:
            days = pc.floor(pc.divide(values.cast(pa.float64()), float(_DAY_MS)))
            return days.cast(pa.int32())
        if schema.name in (TIME, TIMESTAMP):
            return values.cast(schema.arrow_type)
        return super().unloaded(schema, values, timezone)

    def timestamp(self, columns: Sequence[str]) -> str:
        return _MILLISECONDS.format(super().timestamp(columns))

    def timestamp_literal(self, micros: int, timezone: str) -> str:
        return str(micros // 1000)

    def timestamp_micros(self, expression: str, timezone: str) -> str:
        return f"CAST({expression} * 1000 AS INTEGER)"

    def clock_micros(self) -> str:
        return "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000"

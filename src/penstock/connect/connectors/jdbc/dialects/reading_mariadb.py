"""MariaDB and MySQL as the source reads them.

Nothing tells which running transactions have taken a number or a timestamp, so a row that commits late may be missed:
`timestamp.delay.interval.ms` makes that unlikely, and incrementing mode needs writers that commit in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Final, cast

import pyarrow as pa

from penstock.connect.connectors.jdbc.dialects.dialect import JdbcDialect, TableColumn
from penstock.connect.connectors.jdbc.dialects.mariadb import MariaDbJdbcDialect
from penstock.connect.connectors.jdbc.dialects.reading import (
    NumericMapping,
    Reading,
    SourceTable,
    local_text,
    numeric,
    to_instants,
)
from penstock.connect.connectors.jdbc.table_names import TableName
from penstock.connect.data import schema as s
from penstock.connect.data.schema import Schema

if TYPE_CHECKING:
    from penstock.pipeline.sinks.table.database import Database
    from penstock.pipeline.sinks.table.dialects.mariadb.database import MariaDbDatabase

_INTEGERS: Final = {
    "bool": (s.INT8, s.INT8),
    "tinyint": (s.INT8, s.INT16),
    "smallint": (s.INT16, s.INT32),
    "mediumint": (s.INT32, s.INT64),
    "int": (s.INT32, s.INT64),
    "bigint": (s.INT64, s.INT64),
    "year": (s.INT32, s.INT32),
}
"""Signed, and unsigned."""
_OTHERS: Final = {
    "float": s.FLOAT32,
    "double": s.FLOAT64,
    "date": s.date(),
    "time": s.time(),
    "datetime": s.timestamp(),
    "timestamp": s.timestamp(),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), s.BYTES),
    **dict.fromkeys(
        ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "json", "enum", "set", "uuid", "inet6"),
        s.STRING,
    ),
}
_BINARY: Final = 63  # the character set of bytes
_UNSIGNED: Final = 32  # a flag of a column


class MariaDbReading(Reading):
    dialect: ClassVar[JdbcDialect] = MariaDbJdbcDialect()

    def tables(self, database: Database, kinds: Sequence[str], schemas: str | None) -> list[SourceTable]:
        wanted = ["BASE TABLE"] * ("TABLE" in kinds) + ["VIEW"] * ("VIEW" in kinds)
        listed = ", ".join(map(self.dialect.base.quoted_text, wanted)) or "''"
        where = "DATABASE()" if schemas is None else None
        schema = f"= {where}" if where else f"LIKE {self.dialect.base.quoted_text(schemas or '')}"
        found = database.query(
            "SELECT table_schema, table_name, table_schema = DATABASE() FROM information_schema.tables"  # noqa: S608
            f" WHERE table_schema {schema} AND table_type IN ({listed}) AND LEFT(table_name, 9) <> 'penstock_'"
            " AND table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema') ORDER BY 1, 2"
        )
        return [
            SourceTable(TableName(name), catalog) if is_own else SourceTable(TableName(name, catalog))
            for catalog, name, is_own in found
        ]

    def query_columns(self, database: Database, query: str) -> Sequence[TableColumn]:
        statement = f"SELECT * FROM ({query}) q LIMIT 0"  # noqa: S608
        return [_described(field) for field in cast("MariaDbDatabase", database).result_fields(statement)]

    def typed(self, column: TableColumn, mapping: NumericMapping) -> tuple[Schema, str] | None:
        if column.declared == "decimal":
            schema = numeric(column.precision, column.scale, mapping)
            if schema.name is not None:
                return schema, "CAST({} AS CHAR)"
            return schema, "CAST({} AS DOUBLE)" if schema == s.FLOAT64 else "CAST({} AS SIGNED)"
        if column.declared == "bit":
            return (s.INT8, "CAST({} AS UNSIGNED)") if column.precision == 1 else (s.BYTES, "{}")
        if column.declared in _INTEGERS:
            return _INTEGERS[column.declared][column.is_unsigned], "{}"
        schema_found = _OTHERS.get(column.declared)
        return None if schema_found is None else (schema_found, "{}")

    def timestamp_literal(self, micros: int, timezone: str) -> str:
        return f"'{local_text(micros, timezone)}'"

    def timestamp_micros(self, expression: str, timezone: str) -> str:
        return f"TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', {expression})"

    def instant(self, micros: int, timezone: str) -> int:
        on_clocks = pa.array([micros], pa.int64()).cast(pa.timestamp("us"))
        return int(to_instants(on_clocks, timezone).cast(pa.int64())[0].as_py())

    def clock_micros(self) -> str:
        return "TIMESTAMPDIFF(MICROSECOND, '1970-01-01 00:00:00', UTC_TIMESTAMP(6))"


def _described(field: object) -> TableColumn:
    from pymysql.constants import FIELD_TYPE as KIND

    name, code, flags = field.name, field.type_code, field.flags  # type: ignore[attr-defined]
    is_binary = field.charsetnr == _BINARY  # type: ignore[attr-defined]
    plain = {
        KIND.TINY: "tinyint",
        KIND.SHORT: "smallint",
        KIND.INT24: "mediumint",
        KIND.LONG: "int",
        KIND.LONGLONG: "bigint",
        KIND.YEAR: "year",
        KIND.FLOAT: "float",
        KIND.DOUBLE: "double",
        KIND.DATE: "date",
        KIND.NEWDATE: "date",
        KIND.TIME: "time",
        KIND.DATETIME: "datetime",
        KIND.TIMESTAMP: "timestamp",
        KIND.DECIMAL: "decimal",
        KIND.NEWDECIMAL: "decimal",
        KIND.BIT: "bit",
    }
    declared = plain.get(code, "blob" if is_binary else "text")
    scale = field.scale if declared == "decimal" else None  # type: ignore[attr-defined]
    is_unsigned = bool(flags & _UNSIGNED)
    precision = None
    if declared == "decimal":
        # The length counts the sign and the point.
        precision = field.length - (scale != 0) - (not is_unsigned)  # type: ignore[attr-defined]
    elif declared == "bit":
        precision = field.length  # type: ignore[attr-defined]
    return TableColumn(name, declared, is_nullable=True, precision=precision, scale=scale, is_unsigned=is_unsigned)

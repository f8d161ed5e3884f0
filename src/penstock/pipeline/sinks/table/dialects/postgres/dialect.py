"""PostgreSQL: rows arrive by COPY, through ADBC."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import urlsplit

from penstock.pipeline.sinks.table.dialects.dialect import Dialect

if TYPE_CHECKING:
    from penstock.pipeline.sinks.table.column_types import Column
    from penstock.pipeline.sinks.table.database import Database
    from penstock.pipeline.sinks.table.store import TableStore
    from penstock.pipeline.sinks.table.target import TableTarget

_TYPES: Final = {
    "boolean": "boolean",
    "tinyint": "smallint",
    "smallint": "smallint",
    "int": "integer",
    "bigint": "bigint",
    "float": "real",
    "double": "double precision",
    "string": "text",
    "binary": "bytea",
    "date": "date",
    "timestamp": "timestamp with time zone",
    "timestamp_ntz": "timestamp without time zone",
    "json": "jsonb",
}


class PostgresDialect(Dialect):
    schemes: ClassVar[tuple[str, ...]] = ("postgresql", "postgres")
    worker_modules: ClassVar[tuple[str, ...]] = ("adbc_driver_postgresql.dbapi",)
    keeps_arrays: ClassVar[bool] = True
    folds_case: ClassVar[bool] = False
    identity: ClassVar[str] = "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY"

    def check_url(self, url: str) -> None:
        if not urlsplit(url).path.strip("/"):
            raise ValueError("a PostgreSQL URL names a database: 'postgresql://user@host/database'")

    def declared(self, spark_type: str) -> str:
        if spark_type.startswith("array<"):
            return f"{self.declared(spark_type.removeprefix('array<').removesuffix('>'))}[]"
        return _TYPES.get(spark_type) or spark_type.replace("decimal", "numeric")

    def connect(self, url: str) -> Database:
        from penstock.pipeline.sinks.table.dialects.postgres.database import connect

        return connect(url)

    def store(self, target: TableTarget, columns: Sequence[Column]) -> TableStore:
        from penstock.pipeline.sinks.table.dialects.postgres.table import PostgresTable

        return PostgresTable(target, columns)

    def read_table(self, url: str, table: str) -> Any:
        from penstock.pipeline.sinks.table.dialects.postgres.database import read_table

        return read_table(url, self.quoted_table(table))

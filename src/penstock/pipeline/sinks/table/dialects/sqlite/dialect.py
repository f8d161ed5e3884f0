"""SQLite: one file, one writer at a time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from penstock.pipeline.sinks.table.dialects.dialect import Dialect

if TYPE_CHECKING:
    from penstock.pipeline.sinks.table.column_types import Column
    from penstock.pipeline.sinks.table.database import Database
    from penstock.pipeline.sinks.table.store import TableStore
    from penstock.pipeline.sinks.table.target import TableTarget

_SCHEME: Final = "sqlite:///"
_TYPES: Final = {
    "boolean": "BOOLEAN",
    "tinyint": "SMALLINT",
    "smallint": "SMALLINT",
    "int": "INT",
    # Not INTEGER: as a primary key that would be SQLite's row id, and SQLite would number a null.
    "bigint": "BIGINT",
    "float": "REAL",
    "double": "DOUBLE",
    "string": "TEXT",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP",
    "json": "TEXT",
}


class SqliteDialect(Dialect):
    schemes: ClassVar[tuple[str, ...]] = ("sqlite",)
    worker_modules: ClassVar[tuple[str, ...]] = ("adbc_driver_sqlite.dbapi",)
    has_schemas: ClassVar[bool] = False  # a dot is a character like any other
    row_lock: ClassVar[str] = ""  # BEGIN IMMEDIATE has locked the whole database
    identity: ClassVar[str] = "INTEGER PRIMARY KEY AUTOINCREMENT"

    def check_url(self, url: str) -> None:
        path = url.removeprefix(_SCHEME)
        if path == url or not path:
            raise ValueError("a SQLite URL names a file: 'sqlite:///file.db', or 'sqlite:////absolute/file.db'")
        if path.startswith(":memory:"):
            raise ValueError("a SQLite database in memory cannot remember what was committed; name a file")

    def located(self, url: str, directory: Path) -> str:
        return _SCHEME + str((directory / sqlite_path(url)).absolute())

    def is_there(self, url: str) -> bool:
        return os.path.exists(sqlite_path(url))

    def declared(self, spark_type: str) -> str:
        return _TYPES.get(spark_type, "TEXT")  # decimals: text keeps all of their digits

    def connect(self, url: str) -> Database:
        from penstock.pipeline.sinks.table.dialects.sqlite.database import connect_in_worker

        return connect_in_worker(sqlite_path(url))

    def connect_in_driver(self, url: str) -> Database:
        from penstock.pipeline.sinks.table.dialects.sqlite.database import connect_in_driver

        return connect_in_driver(sqlite_path(url))

    def store(self, target: TableTarget, columns: Sequence[Column]) -> TableStore:
        from penstock.pipeline.sinks.table.dialects.sqlite.table import SqliteTable

        return SqliteTable(target, columns)

    def read_table(self, url: str, table: str) -> Any:
        from penstock.pipeline.sinks.table.dialects.sqlite.database import read_table

        return read_table(sqlite_path(url), self.quoted_table(table))


def sqlite_path(url: str) -> str:
    return url.removeprefix(_SCHEME)

"""MariaDB and MySQL: rows arrive by multi-row INSERTs, through PyMySQL. Tables are InnoDB's, which has transactions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import parse_qsl, urlsplit

from penstock.pipeline.sinks.table.dialects.dialect import Dialect

if TYPE_CHECKING:
    from penstock.pipeline.sinks.table.column_types import Column
    from penstock.pipeline.sinks.table.database import Database
    from penstock.pipeline.sinks.table.store import TableStore
    from penstock.pipeline.sinks.table.target import TableTarget

URL_OPTIONS: Final = ("ssl_ca", "ssl_cert", "ssl_key", "unix_socket")
_TYPES: Final = {
    "boolean": "boolean",
    "tinyint": "tinyint",
    "smallint": "smallint",
    "int": "int",
    "bigint": "bigint",
    "float": "float",
    "double": "double",
    "string": "longtext",
    "binary": "longblob",
    "date": "date",
    # TIMESTAMP ends in 2038. An instant is stored as its time in UTC.
    "timestamp": "datetime(6)",
    "timestamp_ntz": "datetime(6)",
    "json": "json",
}


class MariaDbDialect(Dialect):
    schemes: ClassVar[tuple[str, ...]] = ("mysql", "mariadb")
    worker_modules: ClassVar[tuple[str, ...]] = ("pymysql",)
    quote: ClassVar[str] = "`"
    key_text: ClassVar[str] = "VARCHAR(255)"  # an index takes no longer text
    clock_type: ClassVar[str] = "DATETIME(6)"
    identity: ClassVar[str] = "BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY"
    table_options: ClassVar[str] = " ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"

    def check_url(self, url: str) -> None:
        parts = urlsplit(url)
        if not parts.path.strip("/"):
            raise ValueError("a MariaDB or MySQL URL names a database: 'mysql://user@host/database'")
        try:
            _ = parts.port
        except ValueError:
            raise ValueError("the port of the URL is no number") from None
        for name, _value in parse_qsl(parts.query, keep_blank_values=True):
            if name not in URL_OPTIONS:
                raise ValueError(f"a MariaDB or MySQL URL takes the options {', '.join(URL_OPTIONS)}, not {name!r}")

    def declared(self, spark_type: str) -> str:
        return _TYPES.get(spark_type, spark_type)  # decimal(10,2) is spelled alike

    def on_conflict(self, key: Sequence[str], changed: Sequence[str]) -> str:
        """Any unique index counts as the key here, so a table with another one is refused before."""
        assigned = ", ".join(f"{self.quoted(name)} = VALUES({self.quoted(name)})" for name in changed or key[:1])
        return f"ON DUPLICATE KEY UPDATE {assigned}"

    def connect(self, url: str) -> Database:
        from penstock.pipeline.sinks.table.dialects.mariadb.database import connect

        return connect(url)

    def store(self, target: TableTarget, columns: Sequence[Column]) -> TableStore:
        from penstock.pipeline.sinks.table.dialects.mariadb.table import MariaDbTable

        return MariaDbTable(target, columns)

    def read_table(self, url: str, table: str) -> Any:
        from penstock.pipeline.sinks.table.dialects.mariadb.database import read_table

        return read_table(url, self.quoted_table(table))

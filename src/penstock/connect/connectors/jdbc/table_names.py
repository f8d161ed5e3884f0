"""Names of tables and columns: how a property or a topic names a table, and how SQL writes it.

Invariant: a name reaches SQL quoted; with `quote.sql.identifiers=never` only if it is a plain identifier.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from penstock.connect.connector import ConnectError
from penstock.pipeline.sinks.table.dialects.dialect import Dialect

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")


@dataclass(frozen=True, slots=True)
class TableName:
    """`schema` is None for the schema (PostgreSQL) or database (MariaDB) of the connection."""

    name: str
    schema: str | None = None

    def __str__(self) -> str:
        return self.name if self.schema is None else f"{self.schema}.{self.name}"


@dataclass(frozen=True, slots=True)
class Identifiers:
    """How SQL writes names, as `quote.sql.identifiers` says."""

    dialect: Dialect
    always_quoted: bool = True

    def parsed(self, text: str) -> TableName:
        """`schema.table`; also `catalog.schema.table`, whose catalog is the connection's."""
        if not self.dialect.has_schemas:
            return TableName(self.stored(text))
        parts = text.split(".")
        name = self.stored(parts[-1])
        return TableName(name, self.stored(parts[-2])) if len(parts) > 1 else TableName(name)

    def stored(self, name: str) -> str:
        """As the database stores a name that is written like this."""
        return name if self.always_quoted or self.dialect.folds_case else name.lower()

    def written(self, name: str) -> str:
        if self.always_quoted:
            return self.dialect.quoted(name)
        if not _PLAIN.fullmatch(name):
            raise ConnectError(
                f"the name '{name}' needs quotes, and quote.sql.identifiers is never; set it to always, or rename it"
            )
        return name

    def table(self, table: TableName) -> str:
        return self.written(table.name) if table.schema is None else self.in_schema(table.schema, table.name)

    def in_schema(self, schema: str, name: str) -> str:
        return f"{self.written(schema)}.{self.written(name)}"

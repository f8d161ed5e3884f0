"""The names of a pipeline's tables, quoted: its target, the ledger, the outbox, and its staging.

Owns that they live together in one schema, which is the target's, because that is where the user of the URL may create
tables.
"""

from __future__ import annotations

from typing import Final

from penstock.pipeline.sinks.table.target import TableTarget

LEDGER: Final = "penstock_ledger"
OUTBOX: Final = "penstock_dead_letters"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quoted_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class TableNames:
    def __init__(self, target: TableTarget) -> None:
        # SQLite has no schemas; there a dot is a character like any other.
        schema, _, name = ("", "", target.table) if target.is_sqlite else target.table.rpartition(".")
        self.schema: str | None = schema or None
        self.table: str = name
        self.staging_prefix: str = f"penstock_staging_{target.short_id}_"

    @property
    def target(self) -> str:
        return self.qualified(self.table)

    @property
    def ledger(self) -> str:
        return self.qualified(LEDGER)

    @property
    def outbox(self) -> str:
        return self.qualified(OUTBOX)

    def staging(self, attempt: str, relation: str) -> str:
        """Not qualified."""
        return f"{self.staging_prefix}{attempt}_{relation}"

    def qualified(self, name: str) -> str:
        return quoted(name) if self.schema is None else f"{quoted(self.schema)}.{quoted(name)}"

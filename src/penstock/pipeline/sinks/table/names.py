"""The names of a pipeline's tables, quoted: its target, the ledger, the outbox, and its staging.

Owns that they live together in one schema, which is the target's, because that is where the user of the URL may create
tables.
"""

from __future__ import annotations

from typing import Final

from penstock.pipeline.sinks.table.target import TableTarget

LEDGER: Final = "penstock_ledger"
OUTBOX: Final = "penstock_dead_letters"


class TableNames:
    def __init__(self, target: TableTarget) -> None:
        self.quoted = target.dialect.quoted
        schema, _, name = target.table.rpartition(".") if target.dialect.has_schemas else ("", "", target.table)
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
        return self.quoted(name) if self.schema is None else f"{self.quoted(self.schema)}.{self.quoted(name)}"

"""The columns of a table that exists, against those that a pipeline writes: what is missing, and what does not fit.

Owns the refusals for them. What a database knows of a column, and which types lose nothing, is its dialect's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from penstock.pipeline.sinks.table.column_types import Column
from penstock.pipeline.sinks.table.errors import TableRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingColumn:
    """`declared` is its type as the database writes it."""

    name: str
    declared: str
    must_be_given: bool  # NOT NULL without a default
    is_generated: bool


Existing = TypeVar("Existing", bound=ExistingColumn)


@dataclass(frozen=True, slots=True)
class ColumnCheck:
    """What a refusal has to name: the table as its author writes it, and as SQL has it; whether case counts; a new
    column's declaration."""

    table: str
    quoted_table: str
    folds_case: bool
    declaration: Callable[[Column], str]

    def missing(
        self, columns: Sequence[Column], existing: Sequence[Existing], fits: Callable[[Column, Existing], bool]
    ) -> list[Column]:
        """Columns that the table does not have. Raises TableRefused if another one does not fit."""
        there = {self._folded(column.name): column for column in existing}
        missing = []
        for column in columns:
            found = there.get(self._folded(column.name))
            if found is None:
                self._refuse_other_case(column, existing)
                missing.append(column)
            elif found.is_generated:
                raise TableRefused(
                    f"column '{found.name}' of table '{self.table}' is generated; leave it out of the SELECT"
                )
            elif not fits(column, found):
                raise TableRefused(
                    f"column '{column.name}' of table '{self.table}' is {found.declared}, and the pipeline's is"
                    f" {column.type.spark}; CAST it in the SELECT, or make the column {self.declaration(column)}"
                )
        supplied = {self._folded(column.name) for column in columns}
        for name, found in there.items():
            if found.must_be_given and name not in supplied:
                raise TableRefused(
                    f"column '{found.name}' of table '{self.table}' is NOT NULL without a default, and the pipeline"
                    " does not write it; SELECT it, or give it a default"
                )
        return missing

    def refuse(self, column: Column, quoted: str) -> TableRefused:
        return TableRefused(
            f"table '{self.table}' has no column '{column.name}'; ALTER TABLE {self.quoted_table} ADD COLUMN {quoted}"
            f" {self.declaration(column)}, or let the pipeline do that with sink.schema_evolution: add_columns, or"
            " leave it out of the SELECT"
        )

    def _refuse_other_case(self, column: Column, existing: Sequence[Existing]) -> None:
        same = next((each.name for each in existing if each.name.lower() == column.name.lower()), None)
        if same is not None:
            raise TableRefused(f"table '{self.table}' has no column '{column.name}'; write AS {same}")

    def _folded(self, name: str) -> str:
        return name.lower() if self.folds_case else name

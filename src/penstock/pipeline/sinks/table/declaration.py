"""A database table as a sink, as its author declares it. Which databases there are is `dialects/`'s to say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from penstock.pipeline.declaration.redaction import secrets_in_url
from penstock.pipeline.declaration.spec_values import Columns, Expression, Text, refused
from penstock.pipeline.declaration.verdicts import BATCH_ID_FIRST, Kept
from penstock.pipeline.sinks.sink import OutputMode, Sink
from penstock.pipeline.sinks.table.database_url import DESCRIPTION, DatabaseUrl
from penstock.pipeline.sinks.table.databases import dialect_of

if TYPE_CHECKING:
    from penstock.pipeline.sinks.sink_writer import SinkWriter


def _derived_mode(earlier: dict[str, Any]) -> Literal["append", "upsert"]:
    return "upsert" if earlier.get("key") else "append"


class TableSink(Sink):
    """Rows of a database table, which is created when it is missing."""

    discriminator: ClassVar[str] = "table"
    spelling: ClassVar[str] = "{table: ..., url: ...}"
    uses_databases: ClassVar[bool] = True
    guarantees: ClassVar = {
        "at_most_once": BATCH_ID_FIRST,
        "at_least_once": Kept("rows are committed before progress is recorded"),
        "exactly_once": Kept("one database transaction holds the rows and the batch id, in the table penstock_ledger"),
    }

    table: Text = Field(description="The table's name.", examples=["revenue", "public.revenue"])
    url: DatabaseUrl = Field(
        description=DESCRIPTION,
        examples=["sqlite:///revenue.db", "postgresql://penstock:${PGPASSWORD}@localhost/shop"],
    )
    key: Columns | None = Field(
        default=None, description="For upsert, the columns that tell rows apart.", examples=[["customer"]]
    )
    mode: Literal["append", "upsert"] = Field(
        default_factory=_derived_mode,
        description="append adds rows; upsert replaces the row with the same `key`. Without it: upsert if there is a"
        " key, else append.",
    )

    delete_when: Expression | None = Field(
        default=None,
        description="For upsert, a SQL condition: a row that meets it deletes the row with its key, in the same commit."
        " The name of a boolean column is enough; such a column is not written to the table.",
        examples=["_tombstone", "op = 'd'"],
    )
    schema_evolution: Literal["none", "add_columns"] = Field(
        default="none",
        description="What happens when the result has columns that the table does not have: the pipeline is refused"
        " (none), or adds them to the table (add_columns). Every other difference is refused.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.mode == "append" and self.delete_when is not None:
            raise refused("delete_when", "deletes rows by key: name the key's columns, as in key: [id]")
        if self.mode == "upsert" and self.key is None:
            raise refused("key", "mode upsert replaces rows by key: name the columns, as in key: [id]")
        if self.mode == "append" and self.key is not None:
            raise refused("key", "mode append replaces nothing by key; remove it, or set mode: upsert")
        return self

    def writer(self) -> SinkWriter:
        from penstock.pipeline.sinks.table.writer import TableSinkWriter

        return TableSinkWriter(self)

    @property
    def identity(self) -> Mapping[str, str]:
        return {"table": self.table, "mode": self.mode, "key": f"[{', '.join(self.key or ())}]"}

    def refused_output_mode(self, mode: OutputMode) -> str | None:
        if mode == "complete" and self.mode == "append":
            return "would append the whole result again with every batch; use sink.mode: upsert"
        return None

    @property
    def replaces_rows(self) -> bool:
        return self.mode == "upsert"

    def secrets(self) -> Iterator[str]:
        return secrets_in_url(self.url)

    def located(self, directory: Path) -> Self:
        return self.model_copy(update={"url": dialect_of(self.url).located(self.url, directory)})

"""A database table as a source, as its author declares it. Its databases are those of the table sink."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import Field

from penstock.pipeline.declaration.redaction import secrets_in_url
from penstock.pipeline.declaration.spec_values import Text
from penstock.pipeline.sinks.table.database_url import DESCRIPTION, DatabaseUrl
from penstock.pipeline.sinks.table.databases import dialect_of
from penstock.pipeline.sources.source import Source

if TYPE_CHECKING:
    from penstock.pipeline.sources.source_reader import SourceReader


class TableSource(Source):
    """A table of a database, to join a stream with. It is read when the pipeline starts."""

    discriminators: ClassVar[tuple[str, ...]] = ("table",)
    spelling: ClassVar[str] = "{table: ..., url: ...}"
    checks_rows: ClassVar[bool] = False

    table: Text = Field(description="The table's name.", examples=["customers", "public.customers"])
    url: DatabaseUrl = Field(
        description=DESCRIPTION,
        examples=["sqlite:///shop.db", "postgresql://penstock:${PGPASSWORD}@localhost/shop"],
    )
    declared_schema: Text | None = Field(
        default=None,
        alias="schema",
        description="The columns, as in CREATE TABLE; needed only for validate to check SQL without the database.",
    )

    def reader(self) -> SourceReader:
        from penstock.pipeline.sources.table.reader import TableSourceReader

        return TableSourceReader(self)

    @property
    def is_static(self) -> bool:
        return True

    @property
    def columns(self) -> str | None:
        return self.declared_schema

    @property
    def identity(self) -> str:
        return f"table {self.table}"

    def secrets(self) -> Iterator[str]:
        return secrets_in_url(self.url)

    def located(self, directory: Path) -> Self:
        return self.model_copy(update={"url": dialect_of(self.url).located(self.url, directory)})

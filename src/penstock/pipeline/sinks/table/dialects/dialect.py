"""A database as the table sink and the table source see it.

`Dialect` says what can be known without a driver: URLs, identifiers, types and SQL that databases spell differently.
It also opens the parts that need one: connections (`Database`: statements, transactions, bulk load, error mapping) and
the store of a table (`TableStore`: staging, moving rows, checks). Each database is a package here with all of that, and
one line in `databases.py`; nothing outside the package branches on the database.

It imports neither drivers nor Arrow at import time: pipelines are checked without them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from penstock.pipeline.sinks.table.column_types import Column
    from penstock.pipeline.sinks.table.database import Database
    from penstock.pipeline.sinks.table.store import TableStore
    from penstock.pipeline.sinks.table.target import TableTarget


class Dialect(ABC):
    schemes: ClassVar[tuple[str, ...]]
    """Of URLs; the first is the one that messages use."""

    worker_modules: ClassVar[tuple[str, ...]] = ()
    """What Spark's Python processes import before the first row."""

    quote: ClassVar[str] = '"'
    """Around identifiers."""

    has_schemas: ClassVar[bool] = True
    """Whether `a.b` is the table b of the schema a."""

    keeps_arrays: ClassVar[bool] = False
    """Whether a column can be an array of plain values; otherwise an array becomes JSON."""

    folds_case: ClassVar[bool] = True
    """Whether columns whose names differ only in case are the same."""

    row_lock: ClassVar[str] = " FOR UPDATE"
    """Behind a SELECT inside a transaction: no other transaction changes these rows before the end of this one."""

    key_text: ClassVar[str] = "TEXT"
    """The type of a text column in a primary key."""

    clock_type: ClassVar[str] = "TIMESTAMP"
    """The type of the ledger's column `committed_at`."""

    identity: ClassVar[str]
    """The declaration of a primary key that the database numbers itself. No number is ever given twice."""

    table_options: ClassVar[str] = ""
    """Behind the columns of CREATE TABLE."""

    # URLs

    @abstractmethod
    def check_url(self, url: str) -> None:
        """Raises ValueError; the message never shows the URL, which may hold a password."""

    def located(self, url: str, directory: Path) -> str:
        """The URL with a relative path in it made absolute."""
        return url

    def is_there(self, url: str) -> bool:
        """Whether there may be a database at all: False for one that is a file and does not exist."""
        return True

    # SQL

    def quoted(self, name: str) -> str:
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def quoted_text(self, text: str) -> str:
        return "'" + text.replace("'", "''") + "'"

    @abstractmethod
    def declared(self, spark_type: str) -> str:
        """The type of a new table's column for one of Spark's types, as Spark's SQL writes it, or for json."""

    def on_conflict(self, key: Sequence[str], changed: Sequence[str]) -> str:
        """Behind an INSERT: a row with the key of an existing one changes these columns of it."""
        listed = ", ".join(map(self.quoted, key))
        if not changed:
            return f"ON CONFLICT ({listed}) DO NOTHING"
        return f"ON CONFLICT ({listed}) DO UPDATE SET " + ", ".join(
            f"{self.quoted(name)} = excluded.{self.quoted(name)}" for name in changed
        )

    # With a driver

    @abstractmethod
    def connect(self, url: str) -> Database:
        """In a process that Spark has started."""

    def connect_in_driver(self, url: str) -> Database:
        """In the user's own process. Creates a database that is a file."""
        return self.connect(url)

    @abstractmethod
    def store(self, target: TableTarget, columns: Sequence[Column]) -> TableStore: ...

    @abstractmethod
    def read_table(self, url: str, table: str) -> Any:
        """All rows, as an Arrow table. Raises what the driver raises."""

    def quoted_table(self, table: str) -> str:
        """A table's name as an author writes it, quoted part by part."""
        return ".".join(map(self.quoted, table.split(".") if self.has_schemas else [table]))

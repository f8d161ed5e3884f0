"""A database as JDBC connectors see it: types of columns, the catalog, staging of rows, statements that move them.

Each database is a module here; nothing outside them branches on the database. Connections, bulk load and the meaning of
errors are those of the table sinks of pipelines (`base`), which a dialect here extends for Connect's schemas.

It must not know connectors, their properties or ledgers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.connect.connectors.jdbc.decimals import to_decimals
from penstock.connect.connectors.jdbc.table_names import Identifiers, TableName
from penstock.connect.data.schema import DATE, DECIMAL, DECIMAL_SCALE, TIME, TIMESTAMP, Schema
from penstock.pipeline.sinks.table.dialects.dialect import Dialect

if TYPE_CHECKING:
    from penstock.pipeline.sinks.table.database import Database

# Types of Debezium's records, for the sink that has its name; other sinks see their base types.
MICRO_TIME: Final = "penstock.MicroTime"
MICRO_TIMESTAMP: Final = "penstock.MicroTimestamp"
ZONED: Final = "penstock.ZonedTimestamp"
JSON_TEXT: Final = "penstock.Json"
UUID_TEXT: Final = "penstock.Uuid"

UrlOption = Callable[[str], Mapping[str, str]]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of an existing table. `declared` is its type as the database writes it, without a length.

    `value` is SQL that makes a staged value one of this column, with `{}` in place of the staged column. `precision`
    and `scale` are those of a number of the type DECIMAL.
    """

    name: str
    declared: str
    is_nullable: bool
    has_default: bool = False
    value: str = "{}"
    precision: int | None = None
    scale: int | None = None
    is_unsigned: bool = False
    is_enum: bool = False


@dataclass(frozen=True, slots=True)
class StagedColumn:
    """A column of rows on their way: the target's name, the type that staging declares, and SQL for its value.

    `is_same` says whether bulk load may write it into the target itself.
    """

    name: str
    declared: str
    value: str = "{}"
    is_same: bool = False


def staging_schema(batch: pa.Table) -> pa.Schema:
    return pa.schema([pa.field(f"c{number}", column.type) for number, column in enumerate(batch.columns)])


class JdbcDialect(ABC):
    base: ClassVar[Dialect]
    subprotocols: ClassVar[tuple[str, ...]]
    """Behind `jdbc:` in a URL."""
    class_names: ClassVar[tuple[str, ...]]
    """Values of `dialect.name`."""
    is_file: ClassVar[bool] = False
    url_options: ClassVar[Mapping[str, UrlOption]] = {}
    """Options of a JDBC URL to those of this project's URL."""
    default_options: ClassVar[Mapping[str, str]] = {}
    """Options of this project's URL, unless the JDBC URL has them."""
    tuning_options: ClassVar[frozenset[str]] = frozenset()
    """Options of a JDBC URL that only tune a Java driver."""

    # Connections

    def connect(self, url: str, timezone: str) -> Database:
        """Raises TableSinkError."""
        return self.base.connect(url)

    def take_over(self, database: Database, name: str, run: str) -> None:  # noqa: B027 (a file has no sessions)
        """Names the session of a run, and ends sessions of earlier runs of the same name.

        A run that hangs in its commit would keep the ledger's row locked for as long as its connection lasts.
        """

    def introduce(self, database: Database, name: str, run: str) -> None:  # noqa: B027
        """Names the session of a run, by which a later run finds and ends it."""

    def check_reachable(self, url: str, timezone: str) -> None:
        """Creates nothing. Raises TableSinkError."""
        self.connect(url, timezone).close()

    # Types

    @abstractmethod
    def declared(self, schema: Schema, *, is_key: bool) -> str | None:
        """The type of a new table's column; None if no column can hold such values."""

    def staged(self, schema: Schema) -> str:
        """The type of a staging table's column, for a schema that a column can hold."""
        declared = self.declared(schema, is_key=False)
        assert declared is not None
        return declared

    def loaded(self, schema: Schema, values: pa.Array, timezone: str) -> pa.Array:
        """Values of a schema as the driver takes them. Raises ValueError for those that it cannot."""
        match schema.name:
            case str(name) if name == DECIMAL:
                return to_decimals(values, int(schema.parameter(DECIMAL_SCALE) or 0))
            case str(name) if name == DATE:
                return values.cast(pa.date32())
            case str(name) if name == TIME:
                return values.cast(pa.time32("ms"))
            case str(name) if name == TIMESTAMP:
                return local_time(values.cast(pa.timestamp("ms")), timezone)
            case str(name) if name == MICRO_TIME:
                return values.cast(pa.time64("us"))
            case str(name) if name == MICRO_TIMESTAMP:
                return local_time(values.cast(pa.timestamp("us")), timezone)
        return values

    def default_text(self, schema: Schema) -> str | None:
        """The literal behind DEFAULT; None if the default cannot be written as one."""
        match schema.default:
            case None:
                return None
            case bool():
                return "TRUE" if schema.default else "FALSE"
            case int() | float() if schema.name not in (DATE, TIME, TIMESTAMP):
                return repr(schema.default)
            case str():
                return self.base.quoted_text(schema.default)
        return None

    # The catalog

    @abstractmethod
    def columns(self, database: Database, table: TableName) -> Sequence[TableColumn] | None:
        """None if there is no such table."""

    @abstractmethod
    def table_kind(self, database: Database, table: TableName) -> str | None:
        """TABLE, PARTITIONED TABLE or VIEW, as `table.types` names them; None if there is no such table."""

    # Staging

    @abstractmethod
    def stage(self, database: Database, url: str, name: str, columns: Sequence[StagedColumn], rows: pa.Table) -> None:
        """Keeps rows under a name until a commit moves them, outside of any transaction of the commit."""

    @abstractmethod
    def load_session_table(self, database: Database, name: str, columns: Sequence[StagedColumn], rows: pa.Table) -> str:
        """Inside a transaction, which it does not end: a table of the session with these rows; its name for SQL."""

    def copy_to_session_table(self, database: Database, name: str, query: str) -> str:
        """Inside a transaction, which it does not end: a table of the session with the result of a query."""
        quoted = self.base.quoted(name)
        database.execute(f"CREATE TEMPORARY TABLE {quoted} AS {query}")
        return quoted

    def drop_session_table(self, database: Database, table: str) -> None:
        """Inside a transaction, which it does not end; `table` as `load_session_table` has named it."""
        database.execute(f"DROP TABLE {table}")

    @abstractmethod
    def staged_rows(self, database: Database, url: str, name: str, columns: Sequence[StagedColumn], count: int) -> str:
        """Inside a transaction: the table to read staged rows from. Raises StagingLost unless all are there."""

    @abstractmethod
    def discard(self, database: Database, url: str, name: str) -> None:
        """Removes staged rows. Outside a transaction."""

    @abstractmethod
    def discard_all(self, database: Database, url: str, prefix: str) -> None:
        """Removes all staged rows whose name begins like this. Outside a transaction."""

    def is_same(self, staged: str, target: str) -> bool:
        """Whether bulk load may write a column that staging declares so into a target that is declared so."""
        return False

    # Moving rows, inside a transaction. `source` is a table with the columns c0, c1, ...; a key is in it once.

    def insert(self, ids: Identifiers, table: TableName, columns: Sequence[StagedColumn], source: str) -> str:
        names = ", ".join(ids.written(column.name) for column in columns)
        return f"INSERT INTO {ids.table(table)} ({names}) SELECT {values_of(columns)} FROM {source}"  # noqa: S608

    def upsert(
        self, ids: Identifiers, table: TableName, columns: Sequence[StagedColumn], key: Sequence[str], source: str
    ) -> str:
        changed = [column.name for column in columns if column.name not in key]
        return f"{self.insert(ids, table, columns, source)} {self.on_conflict(ids, key, changed)}"

    def on_conflict(self, ids: Identifiers, key: Sequence[str], changed: Sequence[str]) -> str:
        listed = ", ".join(map(ids.written, key))
        if not changed:
            return f"ON CONFLICT ({listed}) DO NOTHING"
        assigned = ", ".join(f"{ids.written(name)} = excluded.{ids.written(name)}" for name in changed)
        return f"ON CONFLICT ({listed}) DO UPDATE SET {assigned}"

    def update(
        self, ids: Identifiers, table: TableName, columns: Sequence[StagedColumn], key: Sequence[str], source: str
    ) -> str:
        assigned = ", ".join(
            f"{ids.written(column.name)} = {value}"
            for column, value in zip(columns, staged_values(columns, "staged."), strict=True)
            if column.name not in key
        )
        same = same_key(ids, columns, key, "target", "staged.")
        return f"UPDATE {ids.table(table)} AS target SET {assigned} FROM {source} AS staged WHERE {same}"  # noqa: S608

    @abstractmethod
    def delete(self, ids: Identifiers, table: TableName, columns: Sequence[StagedColumn], source: str) -> str:
        """`columns` are those of the key."""


def staged_values(columns: Sequence[StagedColumn], prefix: str = "") -> list[str]:
    return [column.value.format(f"{prefix}c{number}") for number, column in enumerate(columns)]


def values_of(columns: Sequence[StagedColumn]) -> str:
    return ", ".join(staged_values(columns))


def same_key(ids: Identifiers, columns: Sequence[StagedColumn], key: Sequence[str], target: str, prefix: str) -> str:
    return " AND ".join(
        f"{target}.{ids.written(column.name)} = {value}"
        for column, value in zip(columns, staged_values(columns, prefix), strict=True)
        if column.name in key
    )


def staging_declaration(columns: Sequence[StagedColumn]) -> str:
    return ", ".join(f"c{number} {column.declared}" for number, column in enumerate(columns))


def with_staging_names(rows: pa.Table) -> tuple[pa.Schema, Any]:
    """What `Database.ingest` takes."""
    schema = staging_schema(rows)
    return schema, iter(rows.rename_columns(schema.names).cast(schema).to_batches())


def local_time(instants: pa.Array, timezone: str) -> pa.Array:
    """The time on clocks of a time zone, without zone; instants are in UTC, without zone."""
    if timezone == "UTC":
        return instants
    return pc.local_timestamp(
        instants.cast(pa.timestamp(instants.type.unit, "UTC")).cast(pa.timestamp(instants.type.unit, timezone))
    )

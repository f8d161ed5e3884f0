"""The structure of a table against the fields of records: created and evolved on request, refused otherwise.

Owns DDL and the columns that rows are staged in. DDL never runs in the transaction that moves rows: on MariaDB it would
commit it. A table that was created for a batch that then fails is simply there for the next try.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.connect.connector import ConnectError
from penstock.connect.connectors.jdbc.dialects.dialect import StagedColumn, TableColumn
from penstock.connect.connectors.jdbc.sink.definition import SinkSettings
from penstock.connect.connectors.jdbc.sink.fields import FieldsRefused, SinkField
from penstock.connect.connectors.jdbc.table_names import TableName
from penstock.connect.data.schema import Schema
from penstock.pipeline.sinks.table.database import Database


class TableStructures:
    """Tables as one connection has found or made them."""

    def __init__(self, settings: SinkSettings, database: Database) -> None:
        self._settings = settings
        self._database = database
        self._dialect = settings.address.dialect
        self._ids = settings.identifiers
        self._found: dict[TableName, dict[str, TableColumn]] = {}

    def staged_columns(self, table: TableName, fields: Sequence[SinkField]) -> tuple[StagedColumn, ...]:
        """How rows with these fields are staged, once the table takes them. Raises ConnectError, FieldsRefused."""
        for field in fields:
            if self._dialect.declared(field.schema, is_key=field.is_key) is None:
                raise FieldsRefused(
                    f"{field.name} ({_shown(field.schema)}) type doesn't have a mapping to the SQL database column"
                    " type; leave the field out with fields.whitelist, or change it with a transform such as Flatten"
                )
        if table not in self._found:
            self._look_up(table, fields)
        if missing := self._missing(table, fields):
            self._evolve(table, missing)
        there = self._found[table]
        return tuple(self._staged(field, there[self._folded(field.name)]) for field in fields)

    def _staged(self, field: SinkField, column: TableColumn) -> StagedColumn:
        declared = self._dialect.staged(field.schema)
        return StagedColumn(column.name, declared, column.value, self._dialect.is_same(declared, column.declared))

    def _look_up(self, table: TableName, fields: Sequence[SinkField]) -> None:
        columns = self._dialect.columns(self._database, table)
        if columns is None:
            if not self._settings.creates:
                raise ConnectError(
                    f"Table {table} is missing and auto-creation is disabled; create it, or set auto.create=true"
                )
            with self._database.creating():
                columns = self._dialect.columns(self._database, table)
                if columns is None:  # no other task was quicker
                    self._database.execute(self._creation(table, fields))
                    columns = self._dialect.columns(self._database, table)
            assert columns is not None
        self._check_kind(table)
        self._found[table] = {self._folded(column.name): column for column in columns}

    def _check_kind(self, table: TableName) -> None:
        kind = self._dialect.table_kind(self._database, table)
        if kind is not None and kind not in self._settings.table_types:
            raise ConnectError(
                f"{table} is a {kind.lower()}, and table.types allows {', '.join(sorted(self._settings.table_types))};"
                f" add {kind} to table.types, or name another table with table.name.format"
            )

    def _missing(self, table: TableName, fields: Sequence[SinkField]) -> list[SinkField]:
        return [field for field in fields if self._folded(field.name) not in self._found[table]]

    def _evolve(self, table: TableName, missing: Sequence[SinkField]) -> None:
        for field in missing:
            if not field.schema.is_optional and field.schema.default is None:
                raise ConnectError(
                    f"Cannot ALTER TABLE {table} to add missing field {field.name}, as the field is not optional and"
                    " does not have a default value; add the column to the table, or make the field optional"
                )
        if not self._settings.evolves:
            names = ", ".join(field.name for field in missing)
            raise ConnectError(
                f"Table {table} is missing fields ({names}) and auto-evolution is disabled; add the columns, set"
                " auto.evolve=true, or leave the fields out with fields.whitelist"
            )
        with self._database.creating():
            self._refresh(table)
            for field in self._missing(table, missing):
                added = self._column(field)
                self._database.execute(f"ALTER TABLE {self._ids.table(table)} ADD COLUMN {added}")
        self._refresh(table)

    def _refresh(self, table: TableName) -> None:
        columns = self._dialect.columns(self._database, table) or ()
        self._found[table] = {self._folded(column.name): column for column in columns}

    def _creation(self, table: TableName, fields: Sequence[SinkField]) -> str:
        declared = [self._column(field) for field in fields]
        key = [self._ids.written(field.name) for field in fields if field.is_key]
        if key:
            declared.append(f"PRIMARY KEY ({', '.join(key)})")
        return f"CREATE TABLE {self._ids.table(table)} ({', '.join(declared)}){self._dialect.base.table_options}"

    def _column(self, field: SinkField) -> str:
        declared = f"{self._ids.written(field.name)} {self._dialect.declared(field.schema, is_key=field.is_key)}"
        if field.is_key:
            return f"{declared} NOT NULL"
        if (default := self._dialect.default_text(field.schema)) is not None:
            return f"{declared} DEFAULT {default}"
        return f"{declared} {'NULL' if field.schema.is_optional or field.schema.default is not None else 'NOT NULL'}"

    def _folded(self, name: str) -> str:
        """Confluent's sink finds a column also by a name that differs in case."""
        return name.lower()


def _shown(schema: Schema) -> str:
    return schema.name or schema.type.name

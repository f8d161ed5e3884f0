"""A table of SQLite, which lets one connection write at a time: tasks leave files, the commit loads them.

The files are Arrow streams in a directory beside the database, one directory for each try of a batch. Small batches do
without: the commit gets their rows with the messages.

Invariant: rows are loaded task after task in the order that Spark has numbered them, so "the last row of a key" means
something.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from penstock.pipeline.sinks.table.column_types import cast_batches
from penstock.pipeline.sinks.table.database import Database
from penstock.pipeline.sinks.table.dialects.sqlite.dialect import sqlite_path
from penstock.pipeline.sinks.table.dialects.sqlite.types import arrow_type, fits
from penstock.pipeline.sinks.table.errors import DatabaseAccessDenied, DatabaseFull, StagingLost, TableRefused
from penstock.pipeline.sinks.table.store import TableStore, require_all
from penstock.pipeline.sinks.table.task_output import Portion, Relation, TaskOutput, inline_batches


class SqliteTable(TableStore):
    # In a task

    def create_staging(self, database: Database, relation: Relation, output: TaskOutput) -> None:
        directory = os.path.join(self._staging, output.attempt)
        try:
            os.makedirs(directory, exist_ok=True)
        except OSError as failure:
            raise DatabaseAccessDenied(f"rows cannot be staged in {directory}: {failure.strerror}") from None

    def stage_portion(
        self, database: Database, relation: Relation, output: TaskOutput, batches: Iterator[Any]
    ) -> Portion:
        path = os.path.join(self._staging, output.attempt, f"{output.task}.{relation.name}.arrow")
        rows = 0
        try:
            with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, relation.schema) as writer:
                for batch in batches:
                    rows += batch.num_rows
                    writer.write_batch(batch)
        except OSError as failure:
            raise DatabaseFull(
                f"rows cannot be staged in {path}: {failure.strerror or failure}; make room and start again"
            ) from None
        return Portion(rows, path=path)

    # In a transaction

    def load(self, database: Database, relation: Relation, outputs: Sequence[TaskOutput]) -> str:
        name = f"penstock_staged_{relation.name}"
        columns = ", ".join(f"c{number} {self.declared(column)}" for number, column in enumerate(relation.columns))
        database.execute(f"DROP TABLE IF EXISTS temp.{name}")
        database.execute(f"CREATE TEMPORARY TABLE {name} ({columns})")
        schema = _sqlite_schema(relation, [f"c{number}" for number in range(len(relation.columns))])
        batches = cast_batches(self._batches(relation, outputs), schema)
        require_all(database.ingest(name, (schema, batches), temporary=True), relation, outputs)
        return f"temp.{name} WHERE true ORDER BY rowid"

    def move_rows(self, database: Database, outputs: Sequence[TaskOutput]) -> None:
        if self.target.mode == "append":
            schema = _sqlite_schema(self.rows, [column.name for column in self.rows.columns])
            batches = cast_batches(self._batches(self.rows, outputs), schema)
            require_all(database.ingest(self.names.table, (schema, batches)), self.rows, outputs)
            return
        staged = self.load(database, self.rows, outputs)
        columns = ", ".join(f"c{number}" for number in range(len(self.rows.columns)))
        # Row after row: one with the key of an earlier one replaces it.
        database.execute(f"{self.insertion()} SELECT {columns} FROM {staged} {self.conflict_clause()}")  # noqa: S608

    def _batches(self, relation: Relation, outputs: Sequence[TaskOutput]) -> Iterator[Any]:
        for output in sorted(outputs, key=lambda each: each.task):
            portion = output.portion(relation)
            if portion.path is None:
                yield from inline_batches(portion)
                continue
            try:
                with pa.OSFile(portion.path, "rb") as file, pa.ipc.open_stream(file) as reader:
                    yield from reader
            except (OSError, pa.ArrowInvalid) as failure:
                raise StagingLost(f"staged rows cannot be read ({failure}); the batch runs again") from None

    def terminate_previous_runs(self, database: Database) -> None:
        """Nothing is held open between the statements of a commit."""

    def discard_staging(self, database: Database, attempts: set[str] | None) -> None:
        for path in [self._staging] if attempts is None else [os.path.join(self._staging, each) for each in attempts]:
            shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):  # there may be others in it, or it was never made
            os.rmdir(self._staging)

    @property
    def _staging(self) -> str:
        return f"{sqlite_path(self.target.url)}-penstock-{self.target.short_id}"

    # At the start

    def table_exists(self, database: Database) -> bool:
        return bool(self._kinds(database))

    def _kinds(self, database: Database) -> list[tuple[str]]:
        statement = "SELECT type FROM sqlite_master WHERE lower(name) = lower(?) AND type IN ('table', 'view')"
        return [(kind,) for (kind,) in database.query(statement, (self.names.table,))]

    def check_table(self, database: Database) -> None:
        table = self.target.table
        if self._kinds(database) != [("table",)]:
            raise TableRefused(f"'{table}' is a view; name a table, or one that is not there yet")
        # Of each column: its name, declared type, NOT NULL, default, place in the primary key, and whether generated.
        info = [row[1:] for row in database.query(f"PRAGMA table_xinfo({self.dialect.quoted_text(table)})")]
        there = {str(name).lower(): str(declared) for name, declared, *_ in info}
        for column in self.rows.columns:
            declared = there.get(column.name.lower())
            if declared is None:
                raise TableRefused(
                    f"table '{table}' has no column '{column.name}'; ALTER TABLE {self.names.target} ADD COLUMN"
                    f" {self.dialect.quoted(column.name)} {self.declared(column)}, or leave it out of the SELECT"
                )
            if not fits(column.type, declared):
                raise TableRefused(
                    f"column '{column.name}' of table '{table}' is {declared}, and the pipeline's is"
                    f" {column.type.spark}; CAST it in the SELECT, or make the column {self.declared(column)}"
                )
        supplied = {column.name.lower() for column in self.rows.columns}
        for name, declared, not_null, default, primary, hidden in info:
            if hidden and name.lower() in supplied:
                raise TableRefused(f"column '{name}' of table '{table}' is generated; leave it out of the SELECT")
            numbers_itself = primary and declared.upper() == "INTEGER"
            if not_null and default is None and not hidden and not numbers_itself and name.lower() not in supplied:
                raise TableRefused(
                    f"column '{name}' of table '{table}' is NOT NULL without a default, and the pipeline does not"
                    " write it; SELECT it, or give it a default"
                )
        if self.target.mode == "upsert":
            self._check_key(database, frozenset(row[0].lower() for row in info if row[4]))

    def _check_key(self, database: Database, primary_key: frozenset[str]) -> None:
        found = {primary_key}
        table = self.target.table
        for _, name, unique, _, partial in database.query(f"PRAGMA index_list({self.dialect.quoted_text(table)})"):
            if unique and not partial:
                columns = [row[2] for row in database.query(f"PRAGMA index_info({self.dialect.quoted_text(name)})")]
                if None not in columns:  # an expression
                    found.add(frozenset(column.lower() for column in columns))
        if frozenset(name.lower() for name in self.target.key) not in found:
            listed = ", ".join(map(self.dialect.quoted, self.target.key))
            raise TableRefused(
                f"table '{table}' has no unique index on exactly its key; CREATE UNIQUE INDEX"
                f" {self.dialect.quoted(table + '_key')} ON {self.names.target} ({listed})"
            )


def _sqlite_schema(relation: Relation, names: list[str]) -> Any:
    return pa.schema(
        [pa.field(name, arrow_type(column.type)) for name, column in zip(names, relation.columns, strict=True)]
    )

"""A table of SQLite, which lets one connection write at a time: tasks leave files, the commit loads them.

The files are Arrow streams in a directory beside the database, one directory for each try of a batch. Small batches do
without: the commit gets their rows with the messages.

Invariant: rows are loaded task after task in the order that Spark has numbered them, so "the last row of a key" means
something.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from penstock.pipeline.sinks.table.column_types import Column, cast_batches
from penstock.pipeline.sinks.table.database import Database
from penstock.pipeline.sinks.table.dialects.sqlite.dialect import sqlite_path
from penstock.pipeline.sinks.table.dialects.sqlite.types import arrow_type, fits
from penstock.pipeline.sinks.table.errors import DatabaseFull, DatabaseNotWritable, StagingLost, TableRefused
from penstock.pipeline.sinks.table.existing_columns import ExistingColumn
from penstock.pipeline.sinks.table.store import TableStore, require_all
from penstock.pipeline.sinks.table.task_output import Portion, Relation, TaskOutput, inline_batches

_NOT_WRITABLE: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.ENOTDIR)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqliteColumn(ExistingColumn):
    is_primary: bool


class SqliteTable(TableStore):
    # In a task

    def create_staging(self, database: Database, relation: Relation, output: TaskOutput) -> None:
        directory = os.path.join(self._staging, output.attempt)
        try:
            os.makedirs(directory, exist_ok=True)
        except OSError as failure:
            raise DatabaseNotWritable(f"rows cannot be staged in {directory}: {failure.strerror}") from None

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
            text = f"rows cannot be staged in {path}: {failure.strerror or failure}"
            if failure.errno in _NOT_WRITABLE:
                raise DatabaseNotWritable(f"{text}; the directory of the database must be writable") from None
            raise DatabaseFull(f"{text}; make room and start again") from None
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
            schema = _sqlite_schema(self.rows, [column.name for column in self.columns])
            batches = cast_batches(self._batches(self.rows, outputs), schema)
            require_all(database.ingest(self.names.table, (schema, batches)), self.rows, outputs)
            return
        staged = self.load(database, self.rows, outputs)
        columns = ", ".join(f"c{number}" for number in range(len(self.columns)))
        if not self.target.deletes:
            # Row after row: one with the key of an earlier one replaces it.
            database.execute(f"{self.insertion()} SELECT {columns} FROM {staged} {self.conflict_clause()}")  # noqa: S608
            return
        table, key = staged.partition(" ")[0], ", ".join(self.staged_key)
        latest = f"FROM {table} WHERE rowid IN (SELECT max(rowid) FROM {table} GROUP BY {key})"  # noqa: S608
        target_key = ", ".join(map(self.dialect.quoted, self.target.key))
        database.execute(
            f"DELETE FROM {self.names.target} WHERE ({target_key}) IN (SELECT {key} {latest} AND {self.staged_flag})"  # noqa: S608
        )
        database.execute(
            f"{self.insertion()} SELECT {columns} {latest} AND NOT {self.staged_flag} ORDER BY rowid"
            f" {self.conflict_clause()}"
        )

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

    def exists(self, database: Database, name: str) -> bool:
        return bool(self._kinds(database, name))

    def _kinds(self, database: Database, name: str) -> list[tuple[str]]:
        statement = "SELECT type FROM sqlite_master WHERE lower(name) = lower(?) AND type IN ('table', 'view')"
        return [(kind,) for (kind,) in database.query(statement, (name,))]

    def check_kind(self, database: Database) -> None:
        if self._kinds(database, self.names.table) != [("table",)]:
            raise TableRefused(f"'{self.target.table}' is a view; name a table, or one that is not there yet")

    def existing_columns(self, database: Database) -> list[SqliteColumn]:
        # Of each column: its name, declared type, NOT NULL, default, place in the primary key, and whether generated.
        table = self.dialect.quoted_text(self.target.table)
        return [
            SqliteColumn(
                name=name,
                declared=declared,
                must_be_given=bool(not_null)
                and default is None
                and not hidden
                and not (primary and declared.upper() == "INTEGER"),  # which numbers itself
                is_generated=bool(hidden),
                is_primary=bool(primary),
            )
            for _, name, declared, not_null, default, primary, hidden in database.query(f"PRAGMA table_xinfo({table})")
        ]

    def fits(self, column: Column, existing: SqliteColumn) -> bool:
        return fits(column.type, existing.declared)

    def check_key(self, database: Database, existing: Sequence[SqliteColumn]) -> None:
        found = {frozenset(column.name.lower() for column in existing if column.is_primary)}
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

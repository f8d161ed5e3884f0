"""A pipeline's table: how rows of tasks reach it, and the one transaction that commits them with the progress.

Owns the order of steps of a commit. What differs between databases is in the packages of `dialects/`.

Invariants:
- Only rows of tasks that succeeded are moved: their outputs say how many there are, and where. Fewer than that is
  StagingLost, never a smaller batch.
- With exactly_once rows, dead letters and ledger change in one transaction, which holds the ledger's row from its first
  statement on.
- A step of a commit may be repeated as a whole: whether it was done before is the ledger's to say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from penstock.pipeline import crash_points
from penstock.pipeline.sinks.table import outbox
from penstock.pipeline.sinks.table.column_types import DELETED, Column, plain_type
from penstock.pipeline.sinks.table.connections import in_worker, trying_again
from penstock.pipeline.sinks.table.database import Database
from penstock.pipeline.sinks.table.errors import StagingLost, TableSinkError
from penstock.pipeline.sinks.table.existing_columns import ColumnCheck
from penstock.pipeline.sinks.table.ledger import BatchPlace, Ledger
from penstock.pipeline.sinks.table.names import TableNames
from penstock.pipeline.sinks.table.receiver_messages import AbortBatch, BeginRows, CommitBatch, ask, stream_rows
from penstock.pipeline.sinks.table.target import TableTarget
from penstock.pipeline.sinks.table.task_output import (
    DEAD_LETTERS,
    NOTHING,
    Portion,
    Relation,
    SplitRows,
    TaskOutput,
    inline_or_rest,
)


class TableStore(ABC):
    def __init__(self, target: TableTarget, columns: Sequence[Column]) -> None:
        self.target = target
        self.dialect = target.dialect
        self.names = TableNames(target)
        self.ledger = Ledger(target)
        self.columns = tuple(columns)
        flag = (Column(DELETED, plain_type("boolean")),) if target.deletes else ()
        self.rows = Relation("rows", (*self.columns, *flag))  # as tasks send them

    # In a task

    def stage(self, output: TaskOutput, batches: Iterator[Any]) -> None:
        """Takes all rows of a task, and notes in its output where they are."""
        split = SplitRows(batches, self.rows, self.target.key)
        output.rows = self._portion(self.rows, output, iter(split))
        output.dead = self._portion(DEAD_LETTERS, output, split.dead_letters()) if split.dead_rows else NOTHING
        crash_points.reached("table.staged")

    def _portion(self, relation: Relation, output: TaskOutput, batches: Iterator[Any]) -> Portion:
        portion = inline_or_rest(batches, relation.schema)
        if isinstance(portion, Portion):
            return portion
        if self.target.receiver is not None and relation == self.rows:
            begin = BeginRows(output.attempt, output.task)
            return Portion(stream_rows(self.target.receiver, begin, portion), landed=True)
        # An iterator is read once, so the connection is tested, and replaced if need be, before its first row.
        trying_again(self.target, lambda database: self.create_staging(database, relation, output))
        return self.stage_portion(in_worker(self.target), relation, output, portion)

    # Commits

    def commit_once(self, outputs: Sequence[TaskOutput], batch_id: int) -> None:
        """Exactly once. Returns when the table holds the batch, written now or before."""
        if self.target.receiver is not None and any(output.rows.landed for output in outputs):
            ask(self.target.receiver, CommitBatch(outputs[0].attempt, batch_id, outputs))
            return

        def transaction(database: Database) -> None:
            with database.transaction():
                self.record_once(database, outputs, batch_id, lambda: self._move_rows_of(database, outputs))
            crash_points.reached("table.after_database_commit")

        trying_again(self.target, transaction)

    def record_once(
        self, database: Database, outputs: Sequence[TaskOutput], batch_id: int, move_rows: Callable[[], None]
    ) -> bool:
        """Inside a transaction: everything that belongs to the batch, unless the ledger holds it; whether it did so."""
        place = BatchPlace(outputs[0].query_id, batch_id, outputs[0].attempt)
        if self.ledger.lock(database).holds(place.query_id, place.batch_id):
            return False
        move_rows()
        self._move_dead_letters(database, outputs, batch_id)
        crash_points.reached("table.before_ledger")
        self.ledger.record(database, place, _source_offsets(self.target.checkpoint, batch_id))
        crash_points.reached("table.before_database_commit")
        return True

    def commit_at_most_once(self, outputs: Sequence[TaskOutput], batch_id: int) -> None:
        """Records the batch, then writes it unless it was on record before. The write is attempted once."""
        place = BatchPlace(outputs[0].query_id, batch_id, outputs[0].attempt)
        if trying_again(self.target, lambda database: self.ledger.admit(database, place)):
            crash_points.reached("table.recorded")
            self._write(in_worker(self.target), outputs, batch_id)

    def write_at_least_once(self, output: TaskOutput, batch_id: int) -> None:
        """In a task: its rows, in a transaction of their own."""
        trying_again(self.target, lambda database: self._write(database, [output], batch_id))

    def _write(self, database: Database, outputs: Sequence[TaskOutput], batch_id: int) -> None:
        with database.transaction():
            self._move_rows_of(database, outputs)
            self._move_dead_letters(database, outputs, batch_id)

    def _move_rows_of(self, database: Database, outputs: Sequence[TaskOutput]) -> None:
        if any(output.rows.rows for output in outputs):
            self.move_rows(database, outputs)

    def _move_dead_letters(self, database: Database, outputs: Sequence[TaskOutput], batch_id: int) -> None:
        if any(output.dead.rows for output in outputs):
            staged = self.load(database, DEAD_LETTERS, outputs)
            outbox.add(database, self.names, self.target, batch_id, staged)

    def abandon(self, outputs: Sequence[TaskOutput]) -> None:
        """Removes everything of an attempt that failed."""
        if self.target.receiver is not None and any(output.rows.landed for output in outputs):
            with suppress(TableSinkError):
                ask(self.target.receiver, AbortBatch(outputs[0].attempt))
        self.discard(outputs)

    def discard(self, outputs: Sequence[TaskOutput]) -> None:
        """Removes staging. What cannot be removed now is removed at the next start."""
        if any(output.rows.is_staged or output.dead.is_staged for output in outputs):
            with suppress(TableSinkError):
                self.discard_staging(in_worker(self.target), {output.attempt for output in outputs})

    # What each database does in its own way

    @abstractmethod
    def create_staging(self, database: Database, relation: Relation, output: TaskOutput) -> None:
        """Makes the place for `stage_portion`. In a task; other tasks do the same meanwhile."""

    @abstractmethod
    def stage_portion(
        self, database: Database, relation: Relation, output: TaskOutput, batches: Iterator[Any]
    ) -> Portion:
        """Takes over more rows than a message should carry."""

    @abstractmethod
    def load(self, database: Database, relation: Relation, outputs: Sequence[TaskOutput]) -> str:
        """Inside a transaction: what to write behind FROM to read these outputs, in columns c0, c1, ..., in order."""

    @abstractmethod
    def move_rows(self, database: Database, outputs: Sequence[TaskOutput]) -> None:
        """Inside a transaction: the good rows into the target; of several with one key the last one stays, or deletes
        the row with that key."""

    @abstractmethod
    def terminate_previous_runs(self, database: Database) -> None:
        """Ends what earlier runs of the pipeline hold open."""

    @abstractmethod
    def discard_staging(self, database: Database, attempts: set[str] | None) -> None:
        """Of these attempts of batches; None: of all attempts of this pipeline."""

    # At the start, in the driver

    def require_fitting_table(self, database: Database) -> None:
        """Inside `Database.creating`: rows can go into the existing table, to which columns are added on request.

        Raises TableRefused, or DatabaseAccessDenied, before it changes anything.
        """
        self.check_kind(database)
        existing = self.existing_columns(database)
        check = ColumnCheck(self.target.table, self.names.target, self.dialect.folds_case, self.declared)
        missing = check.missing(self.columns, existing, self.fits)
        for column in missing:
            if not self.target.adds_columns or column.name in self.target.key:
                raise check.refuse(column, self.dialect.quoted(column.name))
        if self.target.mode == "upsert":
            self.check_key(database, existing)
        for column in missing:
            added = f"{self.dialect.quoted(column.name)} {self.declared(column)}"
            database.execute(f"ALTER TABLE {self.names.target} ADD COLUMN {added}")
        self.check_privileges(database)

    def create_table(self, database: Database) -> None:
        """Inside `Database.creating`."""
        declared = [
            f"{self.dialect.quoted(column.name)} {self.declared(column)}"
            f"{' NOT NULL' if column.name in self.target.key else ''}"
            for column in self.columns
        ]
        if self.target.key:
            declared.append(f"PRIMARY KEY ({', '.join(map(self.dialect.quoted, self.target.key))})")
        database.execute(f"CREATE TABLE {self.names.target} ({', '.join(declared)}){self.table_options(database)}")

    def table_options(self, database: Database) -> str:
        return self.dialect.table_options

    def declared(self, column: Column) -> str:
        """The type of a column of a new table."""
        return self.dialect.declared(column.type.spark)

    @abstractmethod
    def exists(self, database: Database, name: str) -> bool:
        """Whether there is a table or view of that name in the target's schema."""

    @abstractmethod
    def check_kind(self, database: Database) -> None:
        """Raises TableRefused if it is no table, or one without transactions."""

    @abstractmethod
    def existing_columns(self, database: Database) -> Sequence[Any]:
        """Of the target: ExistingColumns."""

    @abstractmethod
    def fits(self, column: Column, existing: Any) -> bool:
        """Whether the existing column loses nothing of the pipeline's."""

    @abstractmethod
    def check_key(self, database: Database, existing: Sequence[Any]) -> None:
        """For an upsert. Raises TableRefused unless exactly the key tells rows apart."""

    def check_privileges(self, database: Database) -> None:
        """Raises DatabaseAccessDenied if the user may not write the table."""
        return

    # SQL that databases have in common

    def insertion(self) -> str:
        columns = ", ".join(self.dialect.quoted(column.name) for column in self.columns)
        return f"INSERT INTO {self.names.target} ({columns})"

    def conflict_clause(self) -> str:
        changed = [column.name for column in self.columns if column.name not in self.target.key]
        return self.dialect.on_conflict(self.target.key, changed)

    def staged(self, name: str) -> str:
        """The staged column of one of the target's columns."""
        return f"c{[column.name for column in self.columns].index(name)}"

    @property
    def staged_key(self) -> list[str]:
        return [self.staged(name) for name in self.target.key]

    @property
    def staged_flag(self) -> str:
        """The staged column DELETED."""
        return f"c{len(self.columns)}"


def expected_rows(relation: Relation, outputs: Sequence[TaskOutput]) -> int:
    return sum(output.portion(relation).rows for output in outputs)


def require_all(found: int, relation: Relation, outputs: Sequence[TaskOutput]) -> None:
    expected = expected_rows(relation, outputs)
    if found != expected:
        raise StagingLost(f"{found} of {expected} staged rows are there; the batch runs again")


def _source_offsets(checkpoint: str | None, batch_id: int) -> str | None:
    """What Spark has noted of the batch, for people who look at the ledger; nothing depends on it."""
    if checkpoint is None:
        return None
    try:
        lines = (Path(checkpoint) / "offsets" / str(batch_id)).read_text().splitlines()
    except OSError:
        return None
    return "\n".join(lines[2:])  # behind the version and the query's own metadata

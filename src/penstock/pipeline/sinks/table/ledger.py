"""The table `penstock_ledger`: for each pipeline, who may commit to its table and which batch was the last.

Owns that row. It must never know what a batch holds.

Invariants:
- The row changes only in a transaction that has locked it first, and except for a claim only by its owner.
- With exactly_once the batch is recorded in the transaction that writes its rows; a batch that is recorded is never
  written again. Batches are those of one query: a new checkpoint begins a new query, and counts from 0 again.
"""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import uuid4

from penstock.pipeline.sinks.table.database import Database
from penstock.pipeline.sinks.table.errors import Fenced, TableRefused
from penstock.pipeline.sinks.table.names import TableNames
from penstock.pipeline.sinks.table.target import TableTarget

_CREATE: Final = """
CREATE TABLE IF NOT EXISTS {ledger} (
    pipeline {key} NOT NULL PRIMARY KEY,
    owner {text} NOT NULL,
    outbox {text} NOT NULL,
    query_id {text},
    batch_id BIGINT,
    attempt {text},
    source_offsets {text},
    committed_at {clock}
){options}"""
_CLAIM: Final = "INSERT INTO {ledger} (pipeline, owner, outbox) VALUES (?, ?, ?) {on_conflict}"
_READ: Final = "SELECT owner, outbox, query_id, batch_id, attempt FROM {ledger} WHERE pipeline = ?"
_RECORD: Final = """
UPDATE {ledger} SET query_id = ?, batch_id = ?, attempt = ?, source_offsets = ?, committed_at = CURRENT_TIMESTAMP
WHERE pipeline = ?"""


class BatchPlace(NamedTuple):
    """A batch of a query, tried under one name; tasks of the same try share it."""

    query_id: str
    batch_id: int
    attempt: str


class LedgerRow(NamedTuple):
    owner: str
    outbox: str  # tells this database's outbox from one that had the same name before
    query_id: str | None
    batch_id: int | None
    attempt: str | None

    def holds(self, query_id: str, batch_id: int) -> bool:
        return self.query_id == query_id and self.batch_id is not None and batch_id <= self.batch_id


class Ledger:
    def __init__(self, target: TableTarget) -> None:
        self._pipeline = target.pipeline
        self._run = target.run
        self._name = TableNames(target).ledger
        self._dialect = target.dialect

    def create(self, database: Database) -> None:
        dialect = self._dialect
        statement = _CREATE.format(
            ledger=self._name,
            key=dialect.key_text,
            text=dialect.declared("string"),
            clock=dialect.clock_type,
            options=dialect.table_options,
        )
        database.execute(statement)

    def claim(self, database: Database) -> None:
        """Makes this run the owner. The earlier owner is fenced at its next batch."""
        statement = _CLAIM.format(ledger=self._name, on_conflict=self._dialect.on_conflict(["pipeline"], ["owner"]))
        database.execute(statement, (self._pipeline, self._run, uuid4().hex))

    def is_ours(self, database: Database) -> bool:
        rows = database.query(_READ.format(ledger=self._name), (self._pipeline,))
        return bool(rows) and rows[0][0] == self._run

    def outbox_id(self, database: Database) -> str | None:
        """An id that the pipeline's row got when it was made; None if there is no row. It tells databases apart."""
        rows = database.query(_READ.format(ledger=self._name), (self._pipeline,))
        return LedgerRow(*rows[0]).outbox if rows else None

    def last_batch(self, database: Database) -> BatchPlace | None:
        rows = database.query(_READ.format(ledger=self._name), (self._pipeline,))
        row = LedgerRow(*rows[0]) if rows else None
        if row is None or row.query_id is None or row.batch_id is None or row.attempt is None:
            return None
        return BatchPlace(row.query_id, row.batch_id, row.attempt)

    def read(self, database: Database) -> LedgerRow:
        return self._owned(database.query(_READ.format(ledger=self._name), (self._pipeline,)))

    def lock(self, database: Database) -> LedgerRow:
        """Inside a transaction: no other run commits to this pipeline's table, or claims it, before its end."""
        return self._owned(database.query(_READ.format(ledger=self._name) + self._dialect.row_lock, (self._pipeline,)))

    def record(self, database: Database, place: BatchPlace, source_offsets: str | None) -> None:
        values = (place.query_id, place.batch_id, place.attempt, source_offsets, self._pipeline)
        database.execute(_RECORD.format(ledger=self._name), values)

    def admit(self, database: Database, place: BatchPlace) -> bool:
        """For at_most_once: whether this try of the batch is the first; recorded before anything is written."""
        with database.transaction():
            row = self.lock(database)
            if row.holds(place.query_id, place.batch_id):
                return row.batch_id == place.batch_id and row.attempt == place.attempt
            self.record(database, place, None)
            return True

    def _owned(self, rows: list[tuple[str, str, str | None, int | None, str | None]]) -> LedgerRow:
        if not rows:
            raise TableRefused(
                f"table {self._name} has no row of pipeline '{self._pipeline}' any more; start the pipeline again"
            )
        row = LedgerRow(*rows[0])
        if row.owner != self._run:
            raise Fenced(f"another run of pipeline '{self._pipeline}' has taken over; this one ends")
        return row

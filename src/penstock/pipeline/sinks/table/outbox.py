"""The table `penstock_dead_letters`: dead letters that are committed with their batch and wait for their topic.

Owns its rows. `dead_letter_relay.py` publishes them.

Invariant: ids of one pipeline grow in the order of its commits, and none is ever given twice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from penstock.pipeline.sinks.table.database import Database
from penstock.pipeline.sinks.table.names import TableNames
from penstock.pipeline.sinks.table.target import TableTarget
from penstock.pipeline.sinks.table.task_output import DEAD_LETTERS


class WaitingLetter(NamedTuple):
    id: int
    key: bytes | None
    value: bytes | None
    reason: str | None
    stage: str | None
    topic: str | None
    partition: int | None
    offset: int | None


def create(database: Database, names: TableNames, target: TableTarget) -> None:
    dialect = target.dialect
    declared = ", ".join(
        f"{dialect.quoted(column.name)} {dialect.declared(column.type.spark)}" for column in DEAD_LETTERS.columns
    )
    database.execute(
        f"CREATE TABLE IF NOT EXISTS {names.outbox} (id {dialect.identity}, pipeline {dialect.key_text} NOT NULL,"
        f" batch_id BIGINT NOT NULL, {declared}){dialect.table_options}"
    )


def add(database: Database, names: TableNames, target: TableTarget, batch_id: int, staged: str) -> None:
    """Inside the transaction of a batch; `staged` is what `TableStore.load` gave."""
    columns = ", ".join(f"c{number}" for number in range(len(DEAD_LETTERS.columns)))
    pipeline = target.dialect.quoted_text(target.pipeline)
    database.execute(
        f"INSERT INTO {names.outbox} (pipeline, batch_id, {_columns(names)})"  # noqa: S608 (names are quoted)
        f" SELECT {pipeline}, {int(batch_id)}, {columns} FROM {staged}"
    )


def waiting(database: Database, names: TableNames, pipeline: str, first_id: int, count_max: int) -> list[WaitingLetter]:
    rows: list[tuple[Any, ...]] = database.query(
        f"SELECT id, {_columns(names)} FROM {names.outbox}"  # noqa: S608 (names are quoted)
        f" WHERE pipeline = ? AND id >= ? ORDER BY id LIMIT {int(count_max)}",
        (pipeline, first_id),
    )
    return [WaitingLetter(*row) for row in rows]


def remove(database: Database, names: TableNames, pipeline: str, end_id: int) -> None:
    """Those before `end_id`."""
    database.execute(f"DELETE FROM {names.outbox} WHERE pipeline = ? AND id < ?", (pipeline, end_id))  # noqa: S608


def _columns(names: TableNames) -> str:
    return ", ".join(names.quoted(column.name) for column in DEAD_LETTERS.columns)

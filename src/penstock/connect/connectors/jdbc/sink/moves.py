"""Rows on their way from a task to their table: staged, or small enough for the message to the driver.

Owns the form of that message and how its rows reach the table inside a transaction.

Invariants:
- A message is small: more than INLINE_BYTES_MAX bytes are staged.
- The moves of a task are applied in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final
from uuid import uuid4

import pyarrow as pa

from penstock.connect.connectors.jdbc.dialects.dialect import StagedColumn
from penstock.connect.connectors.jdbc.sink.changes import Kind
from penstock.connect.connectors.jdbc.sink.definition import SinkSettings
from penstock.connect.connectors.jdbc.table_names import TableName
from penstock.pipeline.sinks.table.database import Database

INLINE_BYTES_MAX: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Move:
    """Rows that change a table in one statement. They are in `inline` (an Arrow stream), or staged under a name."""

    table: TableName
    kind: Kind
    columns: tuple[StagedColumn, ...]
    key: tuple[str, ...]
    rows: int
    inline: bytes | None = None
    staged: str | None = None
    is_numbered: bool = False
    """Rows have a last column with the number of their record, by which those that are refused are found."""


@dataclass(frozen=True, slots=True)
class TaskMoves:
    task: int
    moves: tuple[Move, ...]


def staged_or_inline(
    settings: SinkSettings,
    database: Database,
    prefix: str,
    unplaced: Sequence[tuple[Move, pa.Table]],
    more: tuple[StagedColumn, ...] = (),
) -> list[Move]:
    """In a task: places the rows of moves where the driver finds them. `more` are columns of rows beyond the move's."""
    if sum(rows.nbytes for _, rows in unplaced) <= INLINE_BYTES_MAX:
        return [replace(move, inline=_written(rows)) for move, rows in unplaced]
    made = []
    dialect = settings.address.dialect
    for move, rows in unplaced:
        name = f"{prefix}{uuid4().hex[:20]}"
        dialect.stage(database, settings.address.url, name, (*move.columns, *more), rows)
        made.append(replace(move, staged=name))
    return made


def apply(settings: SinkSettings, database: Database, move: Move, rows: pa.Table | None = None) -> None:
    """Inside a transaction. `rows` are those of a move that was never placed."""
    dialect = settings.address.dialect
    source = source_of(settings, database, move, move.columns, rows)
    if statement := statement_of(settings, move, source):
        database.execute(statement)
    if dialect.is_file or not move.staged:
        dialect.drop_session_table(database, source)


def source_of(
    settings: SinkSettings,
    database: Database,
    move: Move,
    columns: Sequence[StagedColumn],
    rows: pa.Table | None = None,
) -> str:
    """Inside a transaction: the table that has the rows. `columns` are all that they have."""
    dialect = settings.address.dialect
    if move.staged is not None:
        return dialect.staged_rows(database, settings.address.url, move.staged, columns, move.rows)
    if rows is None:
        assert move.inline is not None
        rows = _read(move.inline)
    return dialect.load_session_table(database, f"penstock_rows_{uuid4().hex[:20]}", columns, rows)


def statement_of(settings: SinkSettings, move: Move, source: str) -> str | None:
    """None: there is nothing to change."""
    dialect, ids = settings.address.dialect, settings.identifiers
    match move.kind:
        case "insert":
            return dialect.insert(ids, move.table, move.columns, source)
        case "upsert":
            return dialect.upsert(ids, move.table, move.columns, move.key, source)
        case "delete":
            return dialect.delete(ids, move.table, move.columns, source)
    if all(column.name in move.key for column in move.columns):
        return None
    return dialect.update(ids, move.table, move.columns, move.key, source)


def _written(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def _read(inline: bytes) -> pa.Table:
    with pa.ipc.open_stream(inline) as reader:
        return reader.read_all()

"""Rows on their way from a task to their table: staged, or small enough for the message to the driver.

Owns the form of that message and how its rows reach the table inside a transaction.

Invariants:
- A message is small: more than INLINE_BYTES_MAX bytes are staged.
- The moves of a task are applied in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class TaskMoves:
    task: int
    moves: tuple[Move, ...]


def staged_or_inline(
    settings: SinkSettings, database: Database, prefix: str, unplaced: Sequence[tuple[Move, pa.Table]]
) -> list[Move]:
    """In a task: places the rows of moves where the driver finds them."""
    if sum(rows.nbytes for _, rows in unplaced) <= INLINE_BYTES_MAX:
        return [
            Move(move.table, move.kind, move.columns, move.key, move.rows, inline=_written(rows))
            for move, rows in unplaced
        ]
    made = []
    dialect = settings.address.dialect
    for move, rows in unplaced:
        name = f"{prefix}{uuid4().hex[:20]}"
        dialect.stage(database, settings.address.url, name, move.columns, rows)
        made.append(Move(move.table, move.kind, move.columns, move.key, move.rows, staged=name))
    return made


def apply(settings: SinkSettings, database: Database, move: Move, rows: pa.Table | None = None) -> None:
    """Inside a transaction. `rows` are those of a move that was never placed."""
    dialect = settings.address.dialect
    if move.staged is not None:
        source = dialect.staged_rows(database, settings.address.url, move.staged, move.columns, move.rows)
    else:
        if rows is None:
            assert move.inline is not None
            rows = _read(move.inline)
        source = dialect.load_session_table(database, f"penstock_rows_{uuid4().hex[:20]}", move.columns, rows)
    ids = settings.identifiers
    if move.kind == "insert":
        statement = dialect.insert(ids, move.table, move.columns, source)
    elif move.kind == "upsert":
        statement = dialect.upsert(ids, move.table, move.columns, move.key, source)
    elif move.kind == "delete":
        statement = dialect.delete(ids, move.table, move.columns, source)
    elif all(column.name in move.key for column in move.columns):
        return  # nothing to update
    else:
        statement = dialect.update(ids, move.table, move.columns, move.key, source)
    database.execute(statement)
    if dialect.is_file or not move.staged:
        dialect.drop_session_table(database, source)


def _written(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def _read(inline: bytes) -> pa.Table:
    with pa.ipc.open_stream(inline) as reader:
        return reader.read_all()

"""Which rows of a bulk statement the database refuses: it is tried with ever smaller parts of them, in savepoints.

A statement fails as a whole, and its message names no row. So rows are tried in parts: those that the database takes
stay in the transaction, and each one that it refuses is reported (KIP-610).

Owns the search, and the number of each row. It must not know records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

import pyarrow as pa

from penstock.connect.connectors.jdbc.dialects.dialect import JdbcDialect, StagedColumn
from penstock.connect.connectors.jdbc.failures import record_failure
from penstock.connect.connectors.jdbc.sink.definition import SinkSettings
from penstock.connect.connectors.jdbc.sink.moves import Move, apply, source_of, statement_of
from penstock.connect.data.records import Failure
from penstock.connect.data.schema import INT64
from penstock.pipeline.sinks.table.database import Database
from penstock.pipeline.sinks.table.errors import RowRefused

_SAVEPOINT: Final = "penstock_rows"


def number_column(dialect: JdbcDialect) -> StagedColumn:
    """Of staged rows: the number of the record in its task. It is the last one."""
    return StagedColumn("", dialect.staged(INT64))


def without_numbers(rows: pa.Table) -> pa.Table:
    return rows.remove_column(rows.num_columns - 1)


def refused_rows(count: int, write: Callable[[int, int], None]) -> Iterator[tuple[int, RowRefused]]:
    """`write` takes the rows from a number up to, and without, another; it raises RowRefused, and has written none."""
    waiting = [(0, count)] if count else []
    while waiting:
        start, end = waiting.pop()
        try:
            write(start, end)
        except RowRefused as refusal:
            if end - start == 1:
                yield start, refusal
            else:
                middle = (start + end) // 2
                waiting += [(middle, end), (start, middle)]


@contextmanager
def savepoint(database: Database) -> Iterator[None]:
    """Inside a transaction: what a block that raises RowRefused has done is undone."""
    database.execute(f"SAVEPOINT {_SAVEPOINT}")
    try:
        yield
    except RowRefused:
        database.execute(f"ROLLBACK TO SAVEPOINT {_SAVEPOINT}")
        database.execute(f"RELEASE SAVEPOINT {_SAVEPOINT}")
        raise
    database.execute(f"RELEASE SAVEPOINT {_SAVEPOINT}")


def apply_numbered(settings: SinkSettings, database: Database, move: Move) -> list[Failure]:
    """Of the driver, inside a transaction: a move whose rows are numbered."""
    dialect = settings.address.dialect
    columns = (*move.columns, number_column(dialect))
    source = source_of(settings, database, move, columns)
    number = f"c{len(move.columns)}"
    numbers = [int(each) for (each,) in database.query(f"SELECT {number} FROM {source} ORDER BY {number}")]  # noqa: S608
    statement_columns = ", ".join(f"c{index}" for index in range(len(columns)))

    def write(start: int, end: int) -> None:
        part = dialect.copy_to_session_table(
            database,
            f"penstock_part_{uuid4().hex[:20]}",
            f"SELECT {statement_columns} FROM {source} WHERE {number} BETWEEN {numbers[start]} AND {numbers[end - 1]}",  # noqa: S608
        )
        try:
            with savepoint(database):
                if statement := statement_of(settings, move, part):
                    database.execute(statement)
        finally:
            dialect.drop_session_table(database, part)

    failures = [record_failure([numbers[row]], refusal) for row, refusal in refused_rows(len(numbers), write)]
    if dialect.is_file or not move.staged:
        dialect.drop_session_table(database, source)
    return failures


def apply_rows(settings: SinkSettings, database: Database, move: Move, rows: pa.Table) -> list[Failure]:
    """Of a task, inside a transaction: rows that were not placed, with their numbers in the last column."""
    numbers = rows.column(rows.num_columns - 1).to_pylist()
    values = without_numbers(rows)

    def write(start: int, end: int) -> None:
        with savepoint(database):
            apply(settings, database, move, values.slice(start, end - start))

    return [record_failure([numbers[row]], refusal) for row, refusal in refused_rows(len(numbers), write)]


def unloadable_rows(
    settings: SinkSettings, database: Database, columns: Sequence[StagedColumn], rows: pa.Table
) -> list[Failure]:
    """Of a task: rows that the database does not even take into a table of their own types. Numbers as above."""
    dialect = settings.address.dialect
    numbers = rows.column(rows.num_columns - 1).to_pylist()
    values = without_numbers(rows)

    def write(start: int, end: int) -> None:
        with savepoint(database):
            name = f"penstock_part_{uuid4().hex[:20]}"
            table = dialect.load_session_table(database, name, columns, values.slice(start, end - start))
            dialect.drop_session_table(database, table)

    with database.transaction():
        return [record_failure([numbers[row]], refusal) for row, refusal in refused_rows(len(numbers), write)]

"""One connection to a database, as the table sink needs it: statements, a transaction, Arrow data in bulk.

Owns when a transaction begins and ends, and that every failure of a driver becomes one of our errors. What differs
between databases is in `dialects/`. It must never know ledgers or tables.

Invariant: outside `transaction` no transaction is open, so an idle pipeline holds nothing back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa

from penstock.pipeline.sinks.table.errors import TableSinkError


class Database(ABC):
    """Statements have `?` for their values."""

    begin: str

    def __init__(self, connection: Any, failures: tuple[type[Exception], ...]) -> None:
        """`connection` is a DB-API connection that commits by itself; `failures` is what it raises."""
        self._connection = connection
        self._failures = failures

    @abstractmethod
    def explained(self, failure: Exception) -> TableSinkError:
        """The failure of a driver, in one line for a person."""

    @contextmanager
    def creating(self) -> Iterator[None]:
        """For CREATE TABLE IF NOT EXISTS and what belongs to it: one session at a time.

        IF NOT EXISTS looks and creates in two steps, and another session could act in between.
        """
        with self.transaction():
            yield

    def placed(self, statement: str) -> str:
        """The statement with this database's own placeholders."""
        return statement

    def query(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with self._cursor() as cursor:
            cursor.execute(self.placed(statement) if values else statement, tuple(values) or None)
            return [tuple(row) for row in cursor.fetchall()]

    def execute(self, statement: str, values: Sequence[object] = ()) -> int:
        """The number of rows that were changed, where the driver tells it, else -1."""
        with self._cursor() as cursor:
            cursor.execute(self.placed(statement) if values else statement, tuple(values) or None)
            return int(cursor.rowcount)

    def stream(self, statement: str) -> Iterator[Any]:
        """The result of a query as Arrow record batches, which are fetched as they are asked for."""
        with self._cursor() as cursor:
            cursor.execute(statement)
            try:
                yield from cursor.fetch_record_batch()
            except (OSError, pa.ArrowException) as failure:  # how a reader passes on what the driver says
                raise self.explained(failure) from None

    def result_schema(self, statement: str) -> Any:
        """Arrow's schema of a query's result."""
        with self._cursor() as cursor:
            cursor.execute(statement)
            return cursor.fetch_record_batch().schema

    def ingest(
        self, table: str, batches: Any, *, schema: str | None = None, temporary: bool = False, create: bool = False
    ) -> int:
        """Arrow data (a schema and an iterator of batches) into a table that is there, or that is made for it.

        What the iterator raises is raised here as it is, and not as the driver's failure to read it.
        """
        arrow_schema, iterator = batches
        source = _Source(iterator)
        reader = pa.RecordBatchReader.from_batches(arrow_schema, source)
        try:
            with self._cursor() as cursor:
                cursor.adbc_ingest(
                    table,
                    reader,
                    mode="create" if create else "append",
                    db_schema_name=schema,
                    temporary=temporary,
                )
        except TableSinkError:
            if source.failure is not None:
                raise source.failure from None
            raise
        return source.rows

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commits at the end of the block, rolls back if it raises. A commit that fails may have been done."""
        self.execute(self.begin)
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            with suppress(TableSinkError):
                self.execute("ROLLBACK")
            raise

    def cancel(self) -> None:
        """For another thread: the statement that is being executed fails, unless it is over by then."""
        with suppress(*self._failures):
            self._connection.adbc_cancel()

    def close(self) -> None:
        with suppress(Exception):
            self._connection.close()

    @contextmanager
    def _cursor(self, *kind: Any) -> Iterator[Any]:
        # A cursor that is left open keeps the connection, and with it a lock, alive.
        try:
            cursor = self._connection.cursor(*kind)
        except self._failures as failure:
            raise self.explained(failure) from None
        try:
            yield cursor
        except self._failures as failure:
            # Without its cause: a driver's text may quote a row, and Spark would print it.
            raise self.explained(failure) from None
        finally:
            with suppress(*self._failures):
                cursor.close()


class _Source:
    """Passes batches on, and remembers how many rows there were and what went wrong."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches
        self.rows = 0
        self.failure: BaseException | None = None

    def __iter__(self) -> Iterator[Any]:
        try:
            for batch in self._batches:
                self.rows += batch.num_rows
                yield batch
        except Exception as failure:
            self.failure = failure
            raise

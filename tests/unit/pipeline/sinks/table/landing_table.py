"""A table of PostgreSQL with a row receiver, in the hands of a test that plays Spark: its tasks and its commits."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self
from uuid import uuid4

import psycopg
import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType

from penstock.pipeline.sinks.table.column_types import columns_of
from penstock.pipeline.sinks.table.connections import forget, in_driver
from penstock.pipeline.sinks.table.dialects.postgres.table import PostgresTable
from penstock.pipeline.sinks.table.preparation import claim, prepare
from penstock.pipeline.sinks.table.row_receiver import RowReceiver
from penstock.pipeline.sinks.table.target import TableTarget
from penstock.pipeline.sinks.table.task_output import INLINE_BYTES_MAX, TaskOutput
from tests.postgres_server import PostgresServer

SCHEMA: Final = StructType([StructField("id", LongType()), StructField("word", StringType())])
MANY: Final = 10_000  # rows that no message carries
PATIENCE_S: Final = 60
Row = tuple[Any, ...]


def words(count: int, word: str = "w", first: int = 0) -> list[Row]:
    return [(number, f"{word}{number}") for number in range(first, first + count)]


class HeldTask:
    """A task that has sent half of its rows, and waits to be told how it goes on."""

    def __init__(self, table: LandingTable, rows: Sequence[Row], attempt: str) -> None:
        self._half_sent = threading.Event()
        self._told = threading.Event()
        self._dies = False
        self._output = TaskOutput(attempt, "q", table.next_task())
        self._done: Future[None] = table.threads.submit(table.store.stage, self._output, self._batches(table, rows))

    def _batches(self, table: LandingTable, rows: Sequence[Row]) -> Iterator[Any]:
        batch = table.batch(rows)
        half = batch.num_rows // 2
        assert batch.slice(0, half).nbytes > INLINE_BYTES_MAX
        yield batch.slice(0, half)
        self._half_sent.set()
        assert self._told.wait(PATIENCE_S)
        if self._dies:
            raise RuntimeError("the task dies")
        yield batch.slice(half)

    def await_half(self) -> Self:
        assert self._half_sent.wait(PATIENCE_S)
        return self

    def finish(self) -> TaskOutput:
        self._told.set()
        self._done.result(PATIENCE_S)
        return self._output

    def release(self) -> None:
        """At the end of a test that did not come to it."""
        self._told.set()

    def die(self) -> None:
        self._dies = True
        self._told.set()
        assert isinstance(self._done.exception(PATIENCE_S), RuntimeError)


@dataclass
class LandingTable:
    """Made, claimed and with an open row receiver, by one run of a pipeline."""

    server: PostgresServer
    url: str = ""
    table: str = field(default_factory=lambda: f"t{uuid4().hex[:10]}")
    mode: str = "append"
    schema: StructType = field(default_factory=lambda: SCHEMA)
    deletes: bool = False  # rows end with whether they delete
    create: str = ""  # columns of a table that is there before the pipeline; {table} is its name

    def __post_init__(self) -> None:
        if self.create:
            self.sql(self.create.format(table=self.table))
        self.target = TableTarget(
            url=self.url or self.server.url,
            table=self.table,
            mode="upsert" if self.mode == "upsert" else "append",
            key=("id",) if self.mode == "upsert" else (),
            pipeline=self.table,
            run=uuid4().hex,
            deletes=self.deletes,
        )
        prepare(self.target, self.schema)
        claim(self.target, self.schema)
        self.columns = columns_of(self.schema)
        self.receiver = RowReceiver(PostgresTable(self.target, self.columns))
        self.store = PostgresTable(replace(self.target, receiver=self.receiver.path), self.columns)
        self.threads = ThreadPoolExecutor()
        self._tasks = iter(range(1, 1000))
        self._held: list[HeldTask] = []

    def close(self) -> None:
        self.receiver.close()
        for task in self._held:
            task.release()
        self.threads.shutdown()
        forget(self.target)

    # What Spark does

    def next_task(self) -> int:
        return next(self._tasks)

    def batch(self, rows: Sequence[Row]) -> Any:
        arrow = self.store.rows.schema
        columns = [pa.array(values, each.type) for values, each in zip(zip(*rows, strict=True), arrow, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=arrow)

    def stage(self, rows: Sequence[Row], *, attempt: str = "a") -> TaskOutput:
        output = TaskOutput(attempt, "q", self.next_task())
        self.store.stage(output, iter([self.batch(rows)]))
        return output

    def begin(self, rows: Sequence[Row], *, attempt: str = "a") -> HeldTask:
        """A task that runs beside the test."""
        self._held.append(HeldTask(self, rows, attempt))
        return self._held[-1]

    def commit(self, *outputs: TaskOutput, batch: int = 0) -> None:
        """Bounded: what the receiver answers, it answers in time."""
        self.threads.submit(self.store.commit_once, outputs, batch).result(PATIENCE_S)

    # What others see

    def sql(self, statement: str) -> list[Row]:
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def rows(self, columns: str = "id, word") -> Counter[Row]:
        return Counter(self.sql(f"SELECT {columns} FROM {self.table}"))

    def last_batch(self) -> int | None:
        """As the ledger has it."""
        schema, _, _ = self.table.rpartition(".")
        ledger = f"{schema}.penstock_ledger" if schema else "penstock_ledger"
        [(batch,)] = self.sql(f"SELECT batch_id FROM {ledger} WHERE pipeline = '{self.table}'")
        return batch if batch is None else int(batch)

    def sessions(self) -> int:
        """Of the receiver's, those that the server knows."""
        name = f"penstock {self.target.short_id} {self.target.run[:12]}"
        [(count,)] = self.sql(f"SELECT count(*) FROM pg_stat_activity WHERE application_name = '{name}'")
        return int(count)

    def lands_in_session(self) -> bool:
        with in_driver(self.target) as database, database.transaction():
            return self.store.landing(database).in_session


NewLanding = Callable[..., LandingTable]

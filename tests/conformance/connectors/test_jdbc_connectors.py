"""The JDBC connectors keep what a worker relies on, on SQLite."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

from penstock.connect.connectors.jdbc.sink.connector import JdbcSink
from penstock.connect.connectors.jdbc.sink.debezium import DebeziumJdbcSink
from penstock.connect.connectors.jdbc.source.connector import JdbcSource
from penstock.testing.connectors import (
    KEYED,
    NESTED,
    NUMBER,
    OTHER_STRUCT,
    SCHEMALESS,
    STRUCT,
    TEXT,
    RecordShape,
    SinkAdapter,
    SinkConformance,
    SourceAdapter,
    SourceConformance,
)


class InsertSink(SinkAdapter):
    connector = JdbcSink
    accepts: ClassVar[Sequence[RecordShape]] = (STRUCT, OTHER_STRUCT)
    refuses: ClassVar[Sequence[RecordShape]] = (TEXT, NUMBER, SCHEMALESS, NESTED)

    def config(self) -> Mapping[str, str]:
        return {
            "connection.url": f"jdbc:sqlite:{self.directory / 'orders.db'}",
            "auto.create": "true",
            "auto.evolve": "true",
            "max.retries": "0",
        }

    def written(self) -> Sequence[int]:
        with closing(sqlite3.connect(self.directory / "orders.db")) as database:
            if not database.execute("SELECT 1 FROM sqlite_master WHERE name = 'orders'").fetchall():
                return []
            return [number for (number,) in database.execute("SELECT number FROM orders ORDER BY rowid")]


class UpsertSink(InsertSink):
    accepts: ClassVar[Sequence[RecordShape]] = (KEYED,)
    refuses: ClassVar[Sequence[RecordShape]] = (TEXT, STRUCT)
    keeps_order = False
    replaces_by_key = True
    deletes_by_key = True

    def config(self) -> Mapping[str, str]:
        keys = {"pk.mode": "record_key", "insert.mode": "upsert", "delete.enabled": "true"}
        return {**super().config(), **keys}


class DebeziumSink(InsertSink):
    """Debezium's names of properties; it inserts, and takes the key from the record's."""

    connector = DebeziumJdbcSink
    accepts: ClassVar[Sequence[RecordShape]] = (KEYED,)
    refuses: ClassVar[Sequence[RecordShape]] = (TEXT, STRUCT)
    keeps_order = False
    replaces_by_key = True
    deletes_by_key = True

    def config(self) -> Mapping[str, str]:
        return {
            "connection.url": f"jdbc:sqlite:{self.directory / 'orders.db'}",
            "insert.mode": "upsert",
            "delete.enabled": "true",
            "primary.key.mode": "record_key",
            "schema.evolution": "basic",
        }


class TestDebeziumSink(SinkConformance):
    adapter = DebeziumSink


class TestInsertSink(SinkConformance):
    adapter = InsertSink


class TestUpsertSink(SinkConformance):
    adapter = UpsertSink


class IncrementingSource(SourceAdapter):
    """Two tables; a few rows at a time, so that a slice has several offsets."""

    connector = JdbcSource
    mode: ClassVar[Mapping[str, str]] = {"mode": "incrementing", "incrementing.column.name": "id"}

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        for table in ("orders", "visits"):
            columns = "id INTEGER PRIMARY KEY, number BIGINT NOT NULL, changed TIMESTAMP NOT NULL"
            self._execute(f"CREATE TABLE {table} ({columns})")

    def config(self) -> Mapping[str, str]:
        return {
            "connection.url": f"jdbc:sqlite:{self.directory / 'orders.db'}",
            "topic.prefix": "db.",
            "batch.max.rows": "3",
            "poll.interval.ms": "1",
            **self.mode,
        }

    def put(self, numbers: Sequence[int]) -> None:
        for table, share in (("orders", numbers[::2]), ("visits", numbers[1::2])):
            for number in share:
                # Two rows have one timestamp, so that a position is more than a timestamp.
                changed = f"2024-01-01 00:00:{number // 4:02d}.000"
                self._execute(f"INSERT INTO {table} (number, changed) VALUES ({number}, '{changed}')")

    def number_of(self, value: Any) -> int:
        number: int = value["number"]
        return number

    def _execute(self, statement: str) -> None:
        with closing(sqlite3.connect(self.directory / "orders.db")) as database, database:
            database.execute(statement)


class TimestampSource(IncrementingSource):
    mode: ClassVar[Mapping[str, str]] = {
        "mode": "timestamp+incrementing",
        "timestamp.column.name": "changed",
        "incrementing.column.name": "id",
    }


class QuerySource(IncrementingSource):
    mode: ClassVar[Mapping[str, str]] = {
        "mode": "incrementing",
        "incrementing.column.name": "id",
        "query": "SELECT id, number FROM orders",
    }

    def put(self, numbers: Sequence[int]) -> None:
        for number in numbers:
            self._execute(f"INSERT INTO orders (number, changed) VALUES ({number}, '2024-01-01')")


class TestIncrementingSource(SourceConformance):
    adapter = IncrementingSource


class TestTimestampSource(SourceConformance):
    adapter = TimestampSource


class TestQuerySource(SourceConformance):
    adapter = QuerySource

"""The JDBC source: tables of PostgreSQL, MariaDB, MySQL and SQLite, or a query, to topics.

The driver decides what is new (`plan`): for each table a range of rows with both ends fixed, so that a task that is
repeated reads the same rows. Tasks fetch them as Arrow columns.

Owns which tables there are and when each is asked. How far it may be read is in `horizon.py`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa

from penstock.connect.config.definition import ConfigDef, ConfigException
from penstock.connect.connector import (
    ConnectError,
    Slice,
    SourceConnector,
    SourceOffset,
    SourcePartition,
    SourceRows,
)
from penstock.connect.connectors.jdbc.dialects.dialect import TableColumn
from penstock.connect.connectors.jdbc.dialects.reading import Reading, SourceColumn, SourceTable
from penstock.connect.connectors.jdbc.dialects.reading_mariadb import MariaDbReading
from penstock.connect.connectors.jdbc.dialects.reading_postgres import PostgresReading
from penstock.connect.connectors.jdbc.dialects.reading_sqlite import SqliteReading
from penstock.connect.connectors.jdbc.failures import translated
from penstock.connect.connectors.jdbc.sink.connector import check_connection
from penstock.connect.connectors.jdbc.source.definition import DEFINITION, Mode, SourceSettings, settings
from penstock.connect.connectors.jdbc.source.horizon import Horizon
from penstock.connect.connectors.jdbc.source.positions import Criteria, Position, Range, partition_of, stored_offset
from penstock.connect.data.records import Column, RecordGroup
from penstock.connect.data.schema import Schema, struct
from penstock.pipeline.sinks.table.database import Database
from penstock.pipeline.sinks.table.errors import TableSinkError

_READINGS: Final[tuple[type[Reading], ...]] = (PostgresReading, MariaDbReading, SqliteReading)
_WAITING_S: Final = 0.1
_REMEDY: Final = "correct the table, the query or the configuration and restart the connector, nothing is lost"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What a task reads. `rows` is None for all (bulk)."""

    table: SourceTable | None
    topic: str
    columns: tuple[SourceColumn, ...]
    rows: Range | None


class JdbcSource(SourceConnector):
    definition: ClassVar[ConfigDef] = DEFINITION
    version: ClassVar[str] = "1"
    slice_rows_max: ClassVar[int] = 100_000
    """How many rows one transaction of the source has; a bulk read has a whole table."""

    def __init__(self, name: str, config: Mapping[str, str]) -> None:
        super().__init__(name, config)
        self.settings = settings(config)
        self._reading = reading_of(self.settings)
        self._criteria = Criteria(self.settings, self._reading) if self.settings.mode is not Mode.BULK else None
        self._database: Database | None = None
        self._tables: list[SourceTable | None] | None = None
        self._tables_found_at = 0.0
        self._due: dict[SourceTable | None, float] = {}
        self._horizons: dict[SourceTable | None, Horizon] = {}
        self._initial_micros: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_database": None}  # a task opens its own

    @classmethod
    def check(cls, config: Mapping[str, str]) -> Sequence[ConfigException]:
        try:
            made = settings(config)
        except ConfigException as mistake:
            return (mistake,)
        if found := check_connection(made.address, made.timezone):
            return found
        if not made.address.dialect.base.is_there(made.address.url):
            text = "Invalid value for configuration connection.url: there is no such file; correct the path"
            return (ConfigException(text, "connection.url"),)
        return _check_tables(cls("check", config))

    def task_count(self, tasks_max: int) -> int:
        return 1 if self.settings.query else tasks_max

    @property
    def poll_interval_s(self) -> float:  # type: ignore[override]
        """Short while a table waits for transactions to end."""
        waiting = any(horizon.is_waiting for horizon in self._horizons.values())
        return _WAITING_S if waiting else self.settings.poll_interval_ms / 1000

    # On the driver

    def start(self) -> None:
        with translated(_REMEDY):
            self._connected()

    def stop(self) -> None:
        if self._database is not None:
            self._database.close()
        self._database = None

    def plan(self, offsets: Mapping[str, SourceOffset]) -> Sequence[Slice]:
        try:
            with translated(_REMEDY):
                planned = [
                    each
                    for table in self._current_tables()
                    if (each := self._planned(table, stored_offset(offsets, table))) is not None
                ]
        except BaseException:
            self.stop()
            raise
        return planned

    def _planned(self, table: SourceTable | None, offset: SourceOffset | None) -> Slice | None:
        now = time.monotonic()
        horizon = self._horizons.setdefault(table, Horizon())
        if now < self._due.get(table, 0.0) and not horizon.is_waiting:
            return None
        if not horizon.is_waiting:
            self._due[table] = now + self.settings.poll_interval_ms / 1000
        columns = self.columns(table)
        rows = None
        if self._criteria is not None:
            found = self._next_rows(table, self._position(offset), horizon)
            if found is None:
                return None
            rows, has_more = found
            if has_more:
                self._due[table] = now
        topic = self.settings.topic_prefix + ("" if table is None else table.table.name)
        return Slice(partition_of(table), offset, ReadPlan(table, topic, tuple(columns), rows))

    def _position(self, offset: SourceOffset | None) -> Position:
        if offset or not self.settings.has_timestamps or self.settings.timestamp_initial_ms is None:
            return Position.of(offset)
        if self._initial_micros is None:
            initial = self.settings.timestamp_initial_ms
            self._initial_micros = initial * 1000 if initial >= 0 else self._clock()
        return Position(timestamp_micros=self._initial_micros)

    def _next_rows(self, table: SourceTable | None, after: Position, horizon: Horizon) -> tuple[Range, bool] | None:
        """The rows of a slice, and whether there are more behind them. None: nothing that may be read now."""
        by_clock = self.settings.has_timestamps

        def bound() -> int | None:
            if not self._has_rows(table, Range(after)):
                return None
            return self._clock() - self.settings.timestamp_delay_ms * 1000 if by_clock else self._highest(table)

        def running() -> frozenset[str]:
            name = None if table is None else table.table
            return self._reading.running(self._connected(), name, all_transactions=by_clock)

        safe = horizon.safe(bound, running)
        if safe is None:
            return None
        rows = Range(after, before_micros=safe) if by_clock else Range(after, Position(safe))
        if not self._has_rows(table, rows):
            return None
        assert self._criteria is not None
        cut = self._query(
            f"SELECT {', '.join(self._criteria.position_columns)} FROM {self._from(table)}"  # noqa: S608
            f"{_where(self._criteria.condition(rows))} ORDER BY {self._criteria.order}"
            f" LIMIT 1 OFFSET {self.slice_rows_max - 1}"
        )
        return (Range(after, self._criteria.position(cut[0])), True) if cut else (rows, False)

    def _has_rows(self, table: SourceTable | None, rows: Range) -> bool:
        assert self._criteria is not None
        condition = _where(self._criteria.condition(rows))
        return bool(self._query(f"SELECT 1 FROM {self._from(table)}{condition} LIMIT 1"))  # noqa: S608

    def _highest(self, table: SourceTable | None) -> int | None:
        assert self._criteria is not None
        ((found,),) = self._query(f"SELECT max({self._criteria.number}) FROM {self._from(table)}")  # noqa: S608
        return None if found is None else int(found)

    def _clock(self) -> int:
        return int(self._query(f"SELECT {self._reading.clock_micros()}")[0][0])

    def _query(self, statement: str) -> list[tuple[Any, ...]]:
        return self._connected().query(statement)

    def _connected(self) -> Database:
        if self._database is None:
            self._database = self.settings.address.dialect.connect(self.settings.address.url, self.settings.timezone)
        return self._database

    # Tables and columns

    def _current_tables(self) -> Sequence[SourceTable | None]:
        now = time.monotonic()
        if self._tables is None or now - self._tables_found_at >= self.settings.table_poll_interval_ms / 1000:
            self._tables = [None] if self.settings.query else list(self.find_tables())
            self._tables_found_at = now
        return self._tables

    def find_tables(self) -> Sequence[SourceTable]:
        """Raises ConnectError if one of the whitelist does not exist."""
        wanted = self.settings
        found = self._reading.tables(self._connected(), wanted.table_types, wanted.schema_pattern)
        if wanted.whitelist:
            for name in sorted(wanted.whitelist):
                if not any(name in table.names for table in found):
                    raise ConnectError(
                        f"table {name} of table.whitelist does not exist; create it, correct the name, or extend"
                        " table.types, schema.pattern or catalog.pattern"
                    )
            found = [table for table in found if wanted.whitelist & set(table.names)]
        found = [table for table in found if not wanted.blacklist & set(table.names)]
        names = [table.table.name for table in found]
        for table in found:
            if names.count(table.table.name) > 1:
                raise ConnectError(
                    f"The connector uses the unqualified table name as the topic name and has detected duplicate"
                    f" unqualified table names: {table.qualified}; choose one with schema.pattern or table.whitelist"
                )
        return found

    def columns(self, table: SourceTable | None) -> list[SourceColumn]:
        there = self._table_columns(table)
        self._check_columns(table, there)
        columns = self._reading.source_columns(there, self.settings.numeric_mapping)
        for column in there:
            if not any(column.name == each.name for each in columns):
                _log.warning("column %s is %s, which has no schema: it is left out", column.name, column.declared)
        if not columns:
            raise ConnectError(f"{_shown(table)} has no column that can be read; CAST its columns in a query")
        return columns

    def _table_columns(self, table: SourceTable | None) -> Sequence[TableColumn]:
        database = self._connected()
        if table is None:
            return self._reading.query_columns(database, self.settings.query)
        found = self.settings.address.dialect.columns(database, table.table)
        if found is None:
            self._tables = None
            raise ConnectError(
                f"table {table.qualified} does not exist any more; create it, or correct table.whitelist"
            )
        return found

    def _check_columns(self, table: SourceTable | None, there: Sequence[TableColumn]) -> None:
        by_name = {column.name.lower(): column for column in there}
        wanted = self.settings
        numbers = [wanted.incrementing_column] if wanted.has_numbers else []
        timestamps = list(wanted.timestamp_columns) if wanted.has_timestamps else []
        for kind, names in (("incrementing", numbers), ("timestamp", timestamps)):
            for name in names:
                if name.lower() not in by_name:
                    raise ConnectError(
                        f"{_shown(table)} has no column {name}; correct {kind}.column.name, or leave the table out with"
                        " table.blacklist"
                    )
            are_checked = bool(names) and wanted.validates_non_null and table is not None
            if are_checked and all(by_name[name.lower()].is_nullable for name in names):
                raise ConnectError(
                    f"Cannot make incremental queries using {kind} column {', '.join(names)} on {_shown(table)}"
                    " because this column is nullable; make it NOT NULL, or set validate.non.null=false"
                )

    def _from(self, table: SourceTable | None) -> str:
        return f"({self.settings.query}) q" if table is None else self._reading.ids.table(table.table)

    # In a task

    def read(self, slice_: Slice) -> Iterator[SourceRows]:
        plan: ReadPlan = slice_.plan
        with translated(_REMEDY):
            database = self.settings.address.dialect.connect(self.settings.address.url, self.settings.timezone)
            try:
                yield from self._read(database, plan)
            finally:
                database.close()

    def _read(self, database: Database, plan: ReadPlan) -> Iterator[SourceRows]:
        schema = struct(
            {column.name: column.schema for column in plan.columns},
            name=None if plan.table is None else plan.table.table.name,
        )
        count = 0
        for batch in database.stream(self._statement(plan)):
            for start in range(0, batch.num_rows, self.settings.batch_rows_max):
                part = batch.slice(start, self.settings.batch_rows_max)
                position = Position()
                if self._criteria is not None:
                    last = [part.column(at)[-1].as_py() for at in range(len(plan.columns), part.num_columns)]
                    position = self._criteria.position(last)
                yield SourceRows(self._group(plan, schema, part, count), position.offset)
                count += part.num_rows

    def _statement(self, plan: ReadPlan) -> str:
        ids = self._reading.ids
        selected = [column.select.format(ids.written(column.name)) for column in plan.columns]
        named = [f"{select} AS c{number}" for number, select in enumerate(selected)]
        behind = ""
        if self._criteria is not None and plan.rows is not None:
            named += [f"{each} AS p{number}" for number, each in enumerate(self._criteria.position_columns)]
            behind = f"{_where(self._criteria.condition(plan.rows))} ORDER BY {self._criteria.order}"
        suffix = f" {self.settings.query_suffix}" if self.settings.query_suffix else ""
        return f"SELECT {', '.join(named)} FROM {self._from(plan.table)}{behind}{suffix}"  # noqa: S608

    def _group(self, plan: ReadPlan, schema: Schema, part: Any, first: int) -> RecordGroup:
        arrays = []
        for number, column in enumerate(plan.columns):
            try:
                arrays.append(self._reading.unloaded(column.schema, part.column(number), self.settings.timezone))
            except (pa.ArrowException, ValueError, OverflowError):
                raise ConnectError(
                    f"a value of column {column.name} of {_shown(plan.table)} does not fit its schema"
                    f" ({column.schema.name or column.schema.type.name}); CAST it in a query, or change numeric.mapping"
                ) from None
        fields = [pa.field(field.name, field.schema.arrow_type) for field in schema.fields]
        count = part.num_rows
        return RecordGroup(
            rows=pa.array(np.arange(first, first + count)),
            topic=pa.repeat(pa.scalar(plan.topic), count),
            partition=pa.nulls(count, pa.int32()),
            timestamp=pa.nulls(count, pa.int64()),
            key=Column(None, pa.nulls(count)),
            value=Column(schema, pa.StructArray.from_arrays(arrays, fields=fields)),
        )

    @classmethod
    def check_offsets(
        cls, config: Mapping[str, str], offsets: Sequence[tuple[SourcePartition, SourceOffset | None]]
    ) -> None:
        for partition, offset in offsets:
            if set(partition) not in ({"protocol", "table"}, {"table"}, {"query"}):
                raise ConnectError(
                    f"the partition {dict(partition)} is not one of a JDBC source; write"
                    ' {"protocol": "1", "table": "database.schema.table"}, or {"query": "query"}'
                )
            for name, value in (offset or {}).items():
                known = name in ("incrementing", "timestamp", "timestamp_nanos")
                if not known or isinstance(value, bool) or not isinstance(value, int):
                    raise ConnectError(
                        f"the offset {dict(offset or {})} is not one of a JDBC source; write whole numbers for"
                        " incrementing, timestamp (milliseconds) and timestamp_nanos"
                    )


def reading_of(settings: SourceSettings) -> Reading:
    dialect = type(settings.address.dialect)
    found = next(each for each in _READINGS if isinstance(each.dialect, dialect))
    return found(settings.identifiers)


def _where(condition: str) -> str:
    return f" WHERE {condition}" if condition else ""


def _shown(table: SourceTable | None) -> str:
    return "the query" if table is None else f"table {table.qualified}"


def _check_tables(source: JdbcSource) -> tuple[ConfigException, ...]:
    try:
        with translated(_REMEDY):
            for table in [None] if source.settings.query else source.find_tables():
                source.columns(table)
    except (ConnectError, TableSinkError) as error:
        text = str(error)
        names = ("table.whitelist", "incrementing.column.name", "timestamp.column.name")
        key = next((name for name in names if name in text), "query" if source.settings.query else "connection.url")
        return (ConfigException(f"Invalid value for configuration {key}: {text}", key),)
    finally:
        source.stop()
    return ()

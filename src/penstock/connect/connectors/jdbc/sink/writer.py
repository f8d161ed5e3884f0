"""Writes the records of one task: sorts them by table, refuses those that no table takes, writes or stages the rest.

With exactly_once rows are staged, and the driver's commit moves them. Otherwise they are written when the task is
finished, in one transaction of its own. If `errors.tolerance` is all, rows that the database refuses then are found by
`refusals.py` and handed to `refuse`.

Invariant: nothing reaches a target table before `finish`, so a task that fails leaves its tables as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from penstock.connect.connector import SinkWriter
from penstock.connect.connectors.jdbc.dialects.dialect import StagedColumn
from penstock.connect.connectors.jdbc.failures import retrying, translated
from penstock.connect.connectors.jdbc.sink.changes import Kind, Rows, Shape, in_order
from penstock.connect.connectors.jdbc.sink.debezium_records import known_type, unwrapped
from penstock.connect.connectors.jdbc.sink.definition import InsertMode, SinkSettings
from penstock.connect.connectors.jdbc.sink.fields import (
    CONNECT_EXCEPTION,
    FieldsRefused,
    SinkField,
    fields_of,
    refused,
)
from penstock.connect.connectors.jdbc.sink.moves import Move, TaskMoves, apply, staged_or_inline
from penstock.connect.connectors.jdbc.sink.refusals import apply_rows, number_column, unloadable_rows, without_numbers
from penstock.connect.connectors.jdbc.sink.structure import TableStructures
from penstock.connect.connectors.jdbc.table_names import TableName
from penstock.connect.data.records import Failure, RecordGroup
from penstock.core.guarantee import Guarantee
from penstock.pipeline import crash_points
from penstock.pipeline.sinks.table.database import Database
from penstock.pipeline.sinks.table.errors import RowRefused

Result = TypeVar("Result")
_KINDS: Final[dict[InsertMode, Kind]] = {
    InsertMode.INSERT: "insert",
    InsertMode.UPSERT: "upsert",
    InsertMode.UPDATE: "update",
}


class JdbcSinkWriter(SinkWriter):
    def __init__(
        self,
        connector: str,
        settings: SinkSettings,
        task: int,
        guarantee: Guarantee,
        prefix: str,
        *,
        finds_refused: bool = False,
    ) -> None:
        """`finds_refused`: the driver looks for the rows that the database refuses, and needs their numbers."""
        self._connector = connector
        self._settings = settings
        self._dialect = settings.address.dialect
        self._task = task
        self._guarantee = guarantee
        self._prefix = prefix
        self._finds_refused = finds_refused
        self._database: Database | None = None
        self._structures: TableStructures | None = None
        self._arrived: dict[TableName, list[Rows]] = {}

    # Records

    def put(self, group: RecordGroup) -> Sequence[Failure]:
        if not self._settings.is_debezium:
            return self._put(group)
        result = unwrapped(group)
        return [*result.failures, *(failure for each in result.groups for failure in self._put(each))]

    def _put(self, group: RecordGroup) -> list[Failure]:
        group, failures = refused(self._connector, self._settings, group)
        for topic in pc.unique(group.topic).to_pylist() if len(group) else ():
            of_topic = group if len(pc.unique(group.topic)) == 1 else group.filter(pc.equal(group.topic, topic))
            table = self._settings.table(topic)
            failures += self._take(table, of_topic)
        return failures

    def _take(self, table: TableName, group: RecordGroup) -> list[Failure]:
        is_tombstone = group.value.values.is_null()
        parts = []
        if group.value.values.null_count < len(group):
            kept = group.filter(pc.invert(is_tombstone)) if group.value.values.null_count else group
            parts.append((kept, _KINDS[self._settings.insert_mode]))
        if group.value.values.null_count:
            deleted = group if group.value.values.null_count == len(group) else group.filter(is_tombstone)
            parts.append((deleted, "delete"))
        failures: list[Failure] = []
        for part, kind in parts:
            try:
                self._add(table, part, kind, failures)
            except FieldsRefused as refusal:
                failures.append(Failure(part.rows.to_pylist(), str(refusal), CONNECT_EXCEPTION))
        return failures

    def _add(self, table: TableName, group: RecordGroup, kind: Kind, failures: list[Failure]) -> None:
        """Raises FieldsRefused if none of the records can be written."""
        value = None if kind == "delete" else group.value.schema
        fields = fields_of(str(table), self._settings, group.key.schema, value)
        if kind == "delete":
            fields = tuple(field for field in fields if field.is_key)
        if self._settings.is_debezium:
            fields = tuple(replace(field, schema=known_type(field.schema)) for field in fields)
        columns = self._columns(table, fields)
        group = self._without_null_keys(table, fields, group, failures)
        try:
            loaded = [self._loaded(field, field.values(group)) for field in fields]
        except (ValueError, pa.ArrowException):
            for field in fields:
                group = self._without_bad_values(field, group, failures)
            loaded = [self._loaded(field, field.values(group)) for field in fields]
        if not len(group):
            return
        key = tuple(field.values(group) for field in fields if field.is_key)
        names = tuple(column.name for column, field in zip(columns, fields, strict=True) if field.is_key)
        rows = pa.Table.from_arrays([*loaded, group.rows], names=[f"c{number}" for number in range(len(fields) + 1)])
        self._arrived.setdefault(table, []).append(Rows(Shape(kind, columns, names), group.rows, key, rows))

    def _without_null_keys(
        self, table: TableName, fields: Sequence[SinkField], group: RecordGroup, failures: list[Failure]
    ) -> RecordGroup:
        for field in fields:
            if field.is_key and (values := field.values(group)).null_count:
                why = (
                    f"a record has no {field.name}, which is part of the primary key of table {table}; filter such"
                    " records with a transform, or choose other pk.fields"
                )
                failures.append(Failure(group.rows.filter(values.is_null()).to_pylist(), why, CONNECT_EXCEPTION))
                group = group.filter(values.is_valid())
        return group

    def _without_bad_values(self, field: SinkField, group: RecordGroup, failures: list[Failure]) -> RecordGroup:
        """One value after the other: only for groups that have a bad one."""
        values = field.values(group)
        why = [self._refusal(field, values.slice(row, 1)) for row in range(len(values))]
        failures += [
            Failure([row], f"field {field.name} cannot be written: {text}", CONNECT_EXCEPTION)
            for row, text in zip(group.rows.to_pylist(), why, strict=True)
            if text is not None
        ]
        return group.filter(pa.array([text is None for text in why], pa.bool_()))

    def _refusal(self, field: SinkField, value: pa.Array) -> str | None:
        try:
            self._loaded(field, value)
        except (ValueError, pa.ArrowException) as failure:
            return str(failure)
        return None

    def _loaded(self, field: SinkField, values: pa.Array) -> pa.Array:
        return self._dialect.loaded(field.schema, values, self._settings.timezone)

    def _columns(self, table: TableName, fields: Sequence[SinkField]) -> tuple[StagedColumn, ...]:
        with translated():
            return self._retrying(lambda: self._tables().staged_columns(table, fields))

    # The end

    def finish(self) -> TaskMoves:
        if not any(self._arrived.values()):
            self._close()
            return TaskMoves(self._task, ())
        try:
            with translated():
                if self._guarantee == "exactly_once":
                    moves = self._placed()
                    crash_points.reached("connect.jdbc.staged")
                    return TaskMoves(self._task, tuple(moves))
                crash_points.reached("connect.jdbc.before_write")
                self._write()
                crash_points.reached("connect.jdbc.written")
                return TaskMoves(self._task, ())
        finally:
            self._close()

    def _changes(self, *, every: bool = False) -> list[tuple[Move, pa.Table]]:
        """Sets of rows in their order. Their last column has the numbers of the records."""
        return [
            (Move(table, shape.kind, shape.columns, shape.key, rows.num_rows, is_numbered=every), rows)
            for table, arrived in self._arrived.items()
            for shape, rows in in_order(arrived, every=every)
        ]

    def _placed(self) -> list[Move]:
        if not self._finds_refused:
            try:
                return self._retrying(self._place)
            except RowRefused:
                if not self._settings.tolerates_refusals:
                    raise
        self._retrying(self._drop_unloadable)
        return self._retrying(self._place)

    def _place(self) -> list[Move]:
        more = (number_column(self._dialect),) if self._finds_refused else ()
        unplaced = self._changes(every=self._finds_refused)
        if not more:
            unplaced = [(move, without_numbers(rows)) for move, rows in unplaced]
        return staged_or_inline(self._settings, self._connected(), self._prefix, unplaced, more)

    def _drop_unloadable(self) -> None:
        failures: list[Failure] = []
        loadable: dict[TableName, list[Rows]] = {}
        for table, arrived in self._arrived.items():
            for rows in arrived:
                found = unloadable_rows(self._settings, self._connected(), rows.shape.columns, rows.values)
                refused = pa.array([row for failure in found for row in failure.rows], pa.int64())
                kept = rows.filter(pc.invert(pc.is_in(rows.order, value_set=refused))) if found else rows
                failures += found
                if len(kept.order):
                    loadable.setdefault(table, []).append(kept)
        if failures:
            self.refuse(failures)
        self._arrived = loadable

    def _write(self) -> None:
        try:
            self._retrying(self._write_changes)
        except RowRefused:
            if not self._settings.tolerates_refusals:
                raise
            self._retrying(self._write_without_refused)

    def _write_without_refused(self) -> None:
        database = self._connected()
        failures: list[Failure] = []
        with database.transaction():
            for move, rows in self._changes(every=True):
                failures += apply_rows(self._settings, database, move, rows)
            if failures:
                self.refuse(failures)

    def _write_changes(self) -> None:
        database = self._connected()
        with database.transaction():
            for move, numbered in self._changes():
                rows = without_numbers(numbered)
                if move.kind == "insert" and all(column.is_same for column in move.columns):
                    named = rows.rename_columns([column.name for column in move.columns])
                    batches = (named.schema, iter(named.to_batches()))
                    database.ingest(move.table.name, batches, schema=move.table.schema)
                else:
                    apply(self._settings, database, move, rows)

    def abandon(self) -> None:
        self._close()

    # The connection

    def _retrying(self, step: Callable[[], Result]) -> Result:
        def once() -> Result:
            try:
                return step()
            except BaseException:
                self._close()  # it has failed, or a transaction may still be open on it
                raise

        # With at_most_once a transaction whose COMMIT was not answered must not be written again.
        retries_max = 0 if self._guarantee == "at_most_once" else self._settings.retries_max
        return retrying(once, retries_max, self._settings.backoff_ms)

    def _connected(self) -> Database:
        if self._database is None:
            self._database = self._dialect.connect(self._settings.address.url, self._settings.timezone)
            self._structures = TableStructures(self._settings, self._database)
        return self._database

    def _tables(self) -> TableStructures:
        self._connected()
        assert self._structures is not None
        return self._structures

    def _close(self) -> None:
        if self._database is not None:
            self._database.close()
        self._database = None
        self._structures = None

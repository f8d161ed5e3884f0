"""The table sink at run time: prepares table and ledger, and writes through the data source `penstock_table`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.pipeline.declaration.redaction import redacted_url
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.rows.bad_rows import quoted
from penstock.pipeline.rows.dead_letters import DEAD_LETTER
from penstock.pipeline.sinks.deletions import column_named
from penstock.pipeline.sinks.micro_batch import stream_writers
from penstock.pipeline.sinks.sink_writer import SinkCheck, SinkStart, SinkWriter, WriterFactory
from penstock.pipeline.sinks.table.column_types import DELETED
from penstock.pipeline.sinks.table.data_source import PenstockTable
from penstock.pipeline.sinks.table.dead_letter_relay import relay_at_start
from penstock.pipeline.sinks.table.declaration import TableSink
from penstock.pipeline.sinks.table.errors import TableSinkError
from penstock.pipeline.sinks.table.nested_columns import with_json_columns
from penstock.pipeline.sinks.table.preparation import claim, last_batch, prepare, recorded_place
from penstock.pipeline.sinks.table.row_receiver import with_row_receiver
from penstock.pipeline.sinks.table.target import TableTarget
from penstock.wire.client import WIRE_SETTING_NAMES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter


class TableSinkWriter(SinkWriter):
    def __init__(self, sink: TableSink) -> None:
        self._sink = sink

    def prepare(self, start: SinkStart) -> WriterFactory:
        target = self._target(start)
        rows = self._rows_with_deletions(start.rows)
        shown = f"table '{self._sink.table}' of {redacted_url(self._sink.url)}"
        try:
            rows, target = with_json_columns(rows, target)
            schema = rows.schema
            start.checkpoint.check_place(recorded_place(target, schema), shown)
            prepare(target, schema)
            if start.spec.guarantee != "at_least_once" and (last := last_batch(target)) is not None:
                start.checkpoint.require_planned(last.batch_id, last.query_id, f"table '{self._sink.table}'")
            claim(target, schema)
            place = recorded_place(target, schema)
            assert place is not None  # the claim has made its row
            start.checkpoint.keep_place(place, shown)
            relay_at_start(target)
        except TableSinkError as refusal:
            raise PipelineFailed(f"sink: {refusal}", refusal.entry.exit_code, refusal.entry.condition) from refusal
        rows.sparkSession.dataSource.register(PenstockTable)
        target = with_row_receiver(target, rows, start.resources)
        write = stream_writers(rows, PenstockTable, target.options(), start.mode)

        def writer() -> DataStreamWriter:
            # A table that was changed since the last start is refused before its first row.
            prepare(target, schema)
            return write()

        return writer

    def _target(self, start: SinkStart) -> TableTarget:
        spec, sink = start.spec, self._sink
        kafka: Mapping[str, str] = {}
        if spec.dead_letter_topic is not None:
            given = start.brokers.of_dead_letters(spec)
            kafka = {name: value for name, value in given.items() if name in WIRE_SETTING_NAMES}
        return TableTarget(
            url=sink.url,
            table=sink.table,
            mode=sink.mode,
            key=sink.key or (),
            pipeline=spec.progress_name,
            run=start.run,
            guarantee=spec.guarantee,
            checkpoint=start.checkpoint.location if "://" not in start.checkpoint.location else None,
            dead_letters=spec.dead_letter_topic,
            kafka=tuple(sorted(kafka.items())),
            deletes=sink.delete_when is not None,
            adds_columns=sink.schema_evolution == "add_columns",
        )

    def _rows_with_deletions(self, rows: DataFrame) -> DataFrame:
        """The rows with the column DELETED, in the order that tasks expect: the table's columns, DELETED, dead letters.

        A column that only says whether a row deletes is not one of the table's.
        """
        from pyspark.sql import functions as f

        condition = self._sink.delete_when
        if condition is None:
            return rows
        letters = [name for name in rows.columns if name == DEAD_LETTER]
        flag = column_named(condition, rows.columns)
        kept = [name for name in rows.columns if name not in (DEAD_LETTER, flag) or name in (self._sink.key or ())]
        deleted = f.coalesce(f.expr(condition).cast("boolean"), f.lit(False))
        if letters:  # an expression over the columns of a dead letter would see NULLs, and may not like them
            deleted = f.when(f.col(DEAD_LETTER).isNull(), deleted).otherwise(f.lit(False))
        return rows.select(*map(quoted, kept), deleted.alias(DELETED), *letters)

    def check_result(self, check: SinkCheck, result: DataFrame) -> None:
        check.require_columns(("sink", "key"), result, self._sink.key or ())
        if self._sink.delete_when is not None:
            found = check.expression_type(("sink", "delete_when"), result, self._sink.delete_when)
            if found not in (None, "boolean"):
                check.problem(
                    ("sink", "delete_when"), f"expected a condition that is true or false, got {str(found).upper()}"
                )

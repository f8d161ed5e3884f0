"""The table sink at run time: prepares table and ledger, and writes through the data source `penstock_table`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.sinks.micro_batch import stream_writers
from penstock.pipeline.sinks.sink_writer import SinkCheck, SinkStart, SinkWriter, WriterFactory
from penstock.pipeline.sinks.table.data_source import PenstockTable
from penstock.pipeline.sinks.table.dead_letter_relay import relay_at_start
from penstock.pipeline.sinks.table.declaration import TableSink
from penstock.pipeline.sinks.table.errors import TableSinkError
from penstock.pipeline.sinks.table.preparation import claim, last_batch, prepare
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
        schema = start.rows.schema
        try:
            prepare(target, schema)
            if start.spec.guarantee != "at_least_once" and (last := last_batch(target)) is not None:
                start.checkpoint.require_planned(last.batch_id, last.query_id, f"table '{self._sink.table}'")
            claim(target, schema)
            relay_at_start(target)
        except TableSinkError as refusal:
            raise PipelineFailed(f"sink: {refusal}", refusal.entry.exit_code) from refusal
        start.rows.sparkSession.dataSource.register(PenstockTable)
        target = with_row_receiver(target, start.rows, start.resources)
        write = stream_writers(start.rows, PenstockTable, target.options(), start.mode)

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
        )

    def check_result(self, check: SinkCheck, result: DataFrame) -> None:
        check.require_columns(("sink", "key"), result, self._sink.key or ())

"""The console sink at run time: reports the rows of each micro-batch as an event, which the command prints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.pipeline.sinks.batch_sink import BatchFunction, BatchSinkWriter
from penstock.pipeline.sinks.console.declaration import ConsoleSink
from penstock.pipeline.sinks.sink_writer import SinkStart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ConsoleSinkWriter(BatchSinkWriter):
    def __init__(self, sink: ConsoleSink) -> None:
        self._sink = sink

    def batch_writer(self, start: SinkStart) -> BatchFunction:
        """Reports an event `rows` for each batch that has some."""
        shown_max = self._sink.rows

        def write(rows: DataFrame, batch_id: int) -> None:
            from pyspark.sql import functions as f

            # All rows are made, also those that are not shown: a bad one among them has to stop the pipeline.
            kept = rows.persist()
            try:
                count = kept.count()
                if not count:
                    return
                shown = kept.limit(shown_max)
                as_json = f.to_json(f.struct("*"), {"ignoreNullFields": "false"}).alias("row")
                shown_rows: list[Any] = [json.loads(row["row"]) for row in shown.select(as_json).collect()]
            finally:
                kept.unpersist()
            start.settings.report(
                {
                    "event": "rows",
                    "pipeline": start.spec.name,
                    "batch": batch_id,
                    "count": count,
                    "columns": rows.columns,
                    "rows": shown_rows,
                }
            )

        return write

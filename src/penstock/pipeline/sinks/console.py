"""Rows shown to a person, or told to a program: what a pipeline makes, to look at."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.pipeline.declaration.sink_spec import ConsoleSink
from penstock.pipeline.run_settings import Event
from penstock.pipeline.sinks.batch_functions import BatchFunction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def console_writer(sink: ConsoleSink, pipeline: str, report: Callable[[Event], None]) -> BatchFunction:
    """Reports an event `rows` with each batch that has some; who shows it decides how."""

    def write(rows: DataFrame, batch_id: int) -> None:
        from pyspark.sql import functions as f

        # All rows are made, also those that are not shown: a bad one among them has to stop the pipeline.
        kept = rows.persist()
        try:
            count = kept.count()
            if not count:
                return
            shown = kept.limit(sink.rows)
            told: list[Any] = [
                json.loads(row["row"])
                for row in shown.select(f.to_json(f.struct("*"), {"ignoreNullFields": "false"}).alias("row")).collect()
            ]
        finally:
            kept.unpersist()
        report(
            {
                "event": "rows",
                "pipeline": pipeline,
                "batch": batch_id,
                "count": count,
                "columns": rows.columns,
                "rows": told,
            }
        )

    return write

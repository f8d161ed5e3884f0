"""From a result to a running query.

Owns what every sink has in common at a start: the topic of dead letters, the checkpoint's location, the output mode,
the trigger. The rest is the sink's own (`SinkWriter.prepare`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.pipeline.declaration.spec import EveryInterval, PipelineSpec
from penstock.pipeline.sinks.sink_writer import SinkStart, SinkWriter
from penstock.pipeline.spark.query_start import start_query

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


def prepared(start: SinkStart, writer: SinkWriter | None = None) -> Callable[[], StreamingQuery]:
    """Does what has to be done once in a run. What it returns starts the query, as often as it is called.

    `writer` writes instead of the sink's own.
    """
    spec = start.spec
    if spec.dead_letter_topic is not None:
        start.brokers.ensure_topic("on_error.dead_letters", spec.dead_letter_topic, start.brokers.of_dead_letters(spec))
    new_writer = (writer or spec.sink.writer()).prepare(start)
    options = {"checkpointLocation": start.checkpoint.location}

    def begin() -> StreamingQuery:
        start.checkpoint.remove_torn_plan()
        ready = new_writer().options(**options).outputMode(start.mode).queryName(spec.progress_name)
        return start_query(_triggered(ready, spec, start.settings.once).start)

    return begin


def _triggered(writer: DataStreamWriter, spec: PipelineSpec, once: bool) -> DataStreamWriter:
    if once or isinstance(spec.trigger, str):
        return writer.trigger(availableNow=True)
    if isinstance(spec.trigger, EveryInterval):
        return writer.trigger(processingTime=spec.trigger.interval)
    return writer

"""From a result to a running query: which of the ways to write serves which sink.

Owns what has to happen before the first row (topics created, tables prepared, ownership claimed) and the writer that is
started again after a failure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.brokers import Brokers, ensure_topic
from penstock.pipeline.checkpoint import Checkpoint
from penstock.pipeline.declaration.function_reference import FunctionMissing, load_function
from penstock.pipeline.declaration.sink_spec import ConsoleSink, FileSink, FunctionSink, TableSink, TopicSink
from penstock.pipeline.declaration.spec import EveryInterval, PipelineSpec
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.rows.dead_letters import DEAD_LETTER
from penstock.pipeline.run_settings import RunSettings
from penstock.pipeline.sinks.batch_functions import BatchFunction, guarded
from penstock.wire.client import WIRE_SETTING_NAMES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkStart:
    """Everything that a sink may need to know to start."""

    spec: PipelineSpec
    rows: DataFrame  # with a column DEAD_LETTER if bad rows go to a topic
    mode: str  # Spark's output mode
    run: str  # names this start of the pipeline
    brokers: Brokers
    checkpoint: Checkpoint
    checkpoint_id: str
    settings: RunSettings
    directory: Path  # where functions are looked for
    function: Callable[..., Any] | None
    resources: ExitStack  # closed when the run ends


def prepared(start: SinkStart) -> Callable[[], StreamingQuery]:
    """Does what has to be done once in a run. What it returns starts the query, as often as it is called."""
    spec = start.spec
    if spec.dead_letter_topic is not None:
        ensure_topic("on_error.dead_letters", spec.dead_letter_topic, start.brokers.of_dead_letters(spec))
    writer = _writer(start)
    options = {"checkpointLocation": start.checkpoint.location}

    def begin() -> StreamingQuery:
        ready = writer().options(**options).outputMode(start.mode).queryName(spec.name)
        return _triggered(ready, spec, start.settings.once).start()

    return begin


def _writer(start: SinkStart) -> Callable[[], DataStreamWriter]:
    sink = start.spec.sink
    if isinstance(sink, TopicSink):
        return _topic_writer(start, sink)
    if isinstance(sink, TableSink):
        return _table_writer(start, sink)
    handle = guarded(
        _batch_writer(start, sink), start.spec.guarantee, start.checkpoint, _dead_letter_publication(start)
    )
    return lambda: start.rows.writeStream.foreachBatch(handle)


def _topic_writer(start: SinkStart, sink: TopicSink) -> Callable[[], DataStreamWriter]:
    from penstock.pipeline.sinks.topic_records import topic_records
    from penstock.pipeline.topics.transaction import claim_ownership
    from penstock.pipeline.topics.way_of_writing import ready_to_write

    spec = start.spec
    kafka = start.brokers.of_sink(sink)
    ensure_topic("sink.topic", sink.topic, kafka)
    options = {f"kafka.{name}": value for name, value in kafka.items()}
    options |= {name: str(value) for name, value in sink.options.items() if not name.lower().startswith("kafka.")}
    options |= {"guarantee": spec.guarantee, "transactionalId": spec.name, "run": start.run}
    options["batchesTopic" if DEAD_LETTER in start.rows.columns else "topic"] = sink.topic
    records = topic_records(start.rows, sink, spec.name, spec.dead_letter_topic)
    ready, options = ready_to_write(records, options, _hand_over_directory(start.checkpoint))
    if spec.guarantee != "at_least_once":
        claim_ownership(options)
    return _stream(start, ready, "topic", "penstock", options)


def _hand_over_directory(checkpoint: Checkpoint) -> Path | None:
    location = Path(checkpoint.location)
    return location / "penstock" / "hand_over" if location.is_absolute() else None


def _table_writer(start: SinkStart, sink: TableSink) -> Callable[[], DataStreamWriter]:
    from penstock.pipeline.sinks.dead_letter_relay import relay_at_start
    from penstock.pipeline.sinks.errors import TableSinkError
    from penstock.pipeline.sinks.inlet import with_inlet
    from penstock.pipeline.sinks.table_preparation import claim, last_batch, prepare
    from penstock.pipeline.sinks.table_target import TableTarget
    from penstock.pipeline.sinks.table_writer import FORMAT, PenstockTable

    spec = start.spec
    kafka: Mapping[str, str] = {}
    if spec.dead_letter_topic is not None:
        kafka = _wire(start.brokers.of_dead_letters(spec))
    target = TableTarget(
        url=sink.url,
        table=sink.table,
        mode=sink.mode,
        key=sink.key or (),
        pipeline=spec.name,
        run=start.run,
        guarantee=spec.guarantee,
        checkpoint=start.checkpoint.location if "://" not in start.checkpoint.location else None,
        dead_letters=spec.dead_letter_topic,
        kafka=tuple(sorted(kafka.items())),
    )
    schema = start.rows.schema
    try:
        prepare(target, schema)
        if spec.guarantee != "at_least_once" and (last := last_batch(target)) is not None:
            start.checkpoint.require_planned(last.batch_id, last.query_id, f"table '{sink.table}'")
        claim(target, schema)
        relay_at_start(target)
    except TableSinkError as refusal:
        raise PipelineFailed(f"sink: {refusal}", refusal.entry.exit_code) from refusal
    start.rows.sparkSession.dataSource.register(PenstockTable)
    target = with_inlet(target, start.rows, start.resources)
    write = _stream(start, start.rows, "table", FORMAT, target.options())

    def writer() -> DataStreamWriter:
        # A table that somebody changed since the last start is refused before its first row.
        prepare(target, schema)
        return write()

    return writer


def _stream(
    start: SinkStart, rows: DataFrame, sink: str, format_name: str, options: Mapping[str, str]
) -> Callable[[], DataStreamWriter]:
    if start.mode == "update":
        from penstock.pipeline.sinks.micro_batch_job import micro_batch_function

        return lambda: rows.writeStream.foreachBatch(micro_batch_function(sink, options))
    return lambda: rows.writeStream.format(format_name).options(**options)


def _batch_writer(start: SinkStart, sink: FileSink | ConsoleSink | FunctionSink) -> BatchFunction:
    spec = start.spec
    if isinstance(sink, FileSink):
        from penstock.pipeline.sinks.files import file_writer

        return file_writer(
            start.rows.sparkSession, sink, spec.name, spec.guarantee, start.checkpoint, start.checkpoint_id
        )
    if isinstance(sink, ConsoleSink):
        from penstock.pipeline.sinks.console import console_writer

        return console_writer(sink, spec.name, start.settings.report)
    from penstock.pipeline.sinks.function import function_writer

    try:
        function = start.function or load_function(sink.python, start.directory)
    except FunctionMissing as missing:
        raise PipelineFailed(f"sink.python: {missing}", ExitCode.INVALID_PIPELINE) from missing
    return function_writer(function)


def _dead_letter_publication(start: SinkStart) -> BatchFunction | None:
    spec = start.spec
    if spec.dead_letter_topic is None or DEAD_LETTER not in start.rows.columns:
        return None
    from penstock.pipeline.sinks.dead_letter_publication import DeadLetterPublication

    settings = _wire(start.brokers.of_dead_letters(spec))
    return DeadLetterPublication(spec.name, spec.dead_letter_topic, settings, start.checkpoint_id, spec.guarantee)


def _triggered(writer: DataStreamWriter, spec: PipelineSpec, once: bool) -> DataStreamWriter:
    if once or isinstance(spec.trigger, str):
        return writer.trigger(availableNow=True)
    if isinstance(spec.trigger, EveryInterval):
        return writer.trigger(processingTime=spec.trigger.interval)
    return writer


def _wire(kafka: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in kafka.items() if name in WIRE_SETTING_NAMES}

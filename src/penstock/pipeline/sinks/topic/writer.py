"""The topic sink at run time: prepares the topic and writes records through the data source "penstock".

Owns the way from a pipeline's settings to the options of that data source. What keeps the guarantee is in `topics/`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.pipeline.checkpoint import Checkpoint
from penstock.pipeline.rows.dead_letters import DEAD_LETTER
from penstock.pipeline.sinks.micro_batch import stream_writers
from penstock.pipeline.sinks.sink_writer import SinkCheck, SinkStart, SinkWriter, WriterFactory
from penstock.pipeline.sinks.topic.declaration import TopicSink
from penstock.pipeline.sinks.topic.records import topic_records
from penstock.pipeline.sinks.topic.replay_check import require_known_batches

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class TopicSinkWriter(SinkWriter):
    def __init__(self, sink: TopicSink) -> None:
        self._sink = sink

    def prepare(self, start: SinkStart) -> WriterFactory:
        sink = self._sink
        self._require_same_topic(start)
        options = {name: str(value) for name, value in sink.options.items() if not name.lower().startswith("kafka.")}
        options["batchesTopic" if DEAD_LETTER in start.rows.columns else "topic"] = sink.topic
        records = topic_records(start.rows, sink, start.spec.name, start.spec.dead_letter_topic)
        return write_records(start, records, sink.topic, start.brokers.of(sink.kafka), options)

    def _require_same_topic(self, start: SinkStart) -> None:
        """Creates the topic, unless batches of the checkpoint went to one that is gone."""
        topic, kafka = self._sink.topic, start.brokers.of(self._sink.kafka)
        shown = f"topic '{topic}' of {kafka['bootstrap.servers']}"
        # No two topics of any clusters have the same id, so it tells both apart. Old brokers give none.
        topic_id = start.brokers.topic_id("sink.topic", topic, kafka)
        if topic_id is not None or topic not in start.brokers.topics("sink.topic", kafka):
            start.checkpoint.check_place(topic_id, shown)
        start.brokers.ensure_topic("sink.topic", topic, kafka)
        topic_id = start.brokers.topic_id("sink.topic", topic, kafka)
        if topic_id is not None:
            start.checkpoint.keep_place(topic_id, shown)

    def check_result(self, check: SinkCheck, result: DataFrame) -> None:
        sink = self._sink
        for key in sink.key or ():
            check.expression_type(("sink", "key"), result, key)
        if sink.delete_when is not None:
            found = check.expression_type(("sink", "delete_when"), result, sink.delete_when)
            if found not in (None, "boolean"):
                check.problem(
                    ("sink", "delete_when"), f"expected a condition that is true or false, got {str(found).upper()}"
                )
        for name, expression in sink.headers.items():
            check.expression_type(("sink", "headers", name), result, expression)
        if sink.partition is not None:
            found = check.expression_type(("sink", "partition"), result, sink.partition)
            if found not in (None, "int", "bigint", "smallint", "tinyint"):
                check.problem(("sink", "partition"), f"expected a whole number, got {str(found).upper()}")
        if sink.format in ("text", "binary"):
            if sink.value is not None:
                check.expression_type(("sink", "value"), result, sink.value)
            elif "value" not in result.columns:
                message = f"format {sink.format} writes the column 'value', and there is none: name one as sink.value"
                check.problem(("sink", "format"), message)


def write_records(
    start: SinkStart, records: DataFrame, topic: str, kafka: Mapping[str, str], options: Mapping[str, str]
) -> WriterFactory:
    """Writes records of the data source "penstock", with the pipeline's guarantee. `options` are the sink's own."""
    from penstock.pipeline.topics.row_encoding import ready_to_write
    from penstock.pipeline.topics.transaction import claim_ownership
    from pyspark_penstock import DefaultSource

    spec = start.spec
    require_known_batches(spec, topic, kafka, start.checkpoint)
    start.brokers.ensure_topic("sink.topic", topic, kafka)
    given = {f"kafka.{name}": value for name, value in kafka.items()} | dict(options)
    given |= {"guarantee": spec.guarantee, "transactionalId": spec.progress_name, "run": start.run}
    ready, given = ready_to_write(records, given, _hand_over_directory(start.checkpoint))
    if spec.guarantee != "at_least_once":
        claim_ownership(given)
    return stream_writers(ready, DefaultSource, given, start.mode)


def _hand_over_directory(checkpoint: Checkpoint) -> Path | None:
    location = Path(checkpoint.location)
    return location / "penstock" / "hand_over" if location.is_absolute() else None

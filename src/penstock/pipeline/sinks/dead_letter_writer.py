"""The dead letters of a pipeline with several sinks, written by a query of their own.

A sink that is a pipeline's only one writes them beside its rows. Of several, each would publish every dead letter once;
so none of them does, and a bad row is published once, whichever sinks are added, removed or behind.
"""

from __future__ import annotations

from penstock.pipeline.rows.dead_letters import record_columns
from penstock.pipeline.sinks.sink_writer import SinkStart, SinkWriter, WriterFactory
from penstock.pipeline.sinks.topic.writer import write_records


class DeadLetterWriter(SinkWriter):
    """`SinkStart.rows` has one column, DEAD_LETTER."""

    def prepare(self, start: SinkStart) -> WriterFactory:
        spec = start.spec
        topic = spec.dead_letter_topic
        assert topic is not None  # otherwise there are no dead letters
        records = start.rows.select(*record_columns(spec.name, topic)).drop("topic")
        return write_records(start, records, topic, start.brokers.of_dead_letters(spec), {"topic": topic})

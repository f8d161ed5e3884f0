"""Where a record failed, in the words of Kafka Connect (KIP-298)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from penstock.connect.data.records import Failure


class Stage(Enum):
    """What a task was doing with a record. The names are those of the header `__connect.errors.stage`."""

    TASK_POLL = "TASK_POLL"
    TASK_PUT = "TASK_PUT"
    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    KAFKA_CONSUME = "KAFKA_CONSUME"


SINK_TASK = "org.apache.kafka.connect.sink.SinkTask"
"""The executing class of records that a sink reports (KIP-610)."""


@dataclass(frozen=True, slots=True)
class StagedFailure:
    """A failure, where it happened, and the Java name of the class that was at work: a converter, a transform, a task.

    `failure.rows` are rows of the batch of originals, which `ErrorPolicy.decide` gets too.
    """

    stage: Stage
    executing_class: str
    failure: Failure

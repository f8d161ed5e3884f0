"""Records of a source on their way to topics: order, transforms, and those that fail."""

from __future__ import annotations

import pickle
from typing import Any, cast

import pyarrow as pa
import pytest

from penstock.connect.converters.configured import converters_of
from penstock.connect.data.records import Column, RecordGroup
from penstock.connect.data.schema import INT32, STRING, Schema
from penstock.connect.errors.policy import ErrorPolicy
from penstock.connect.errors.tolerance import ToleranceExceeded
from penstock.connect.runtime.client_settings import ProducerSettings
from penstock.connect.runtime.record_steps import RecordSteps
from penstock.connect.transforms.chain import build_chain

STRINGS = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
}
INTEGERS = {**STRINGS, "value.converter": "org.apache.kafka.connect.converters.IntegerConverter"}
TOLERANT = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "letters",
    "errors.deadletterqueue.context.headers.enable": "true",
}


class Written:
    def __init__(self) -> None:
        self.values: list[tuple[str, bytes | None]] = []
        self.headers: list[Any] = []

    def __call__(self, topic: str, records: pa.RecordBatch) -> None:
        self.values += [(topic, value) for value in records.column("value").to_pylist()]
        self.headers += records.column("headers").to_pylist()


def group(rows: list[int], values: list[Any], schema: Schema) -> RecordGroup:
    count = len(rows)
    return RecordGroup(
        pa.array(rows, pa.int64()),
        pa.repeat(pa.scalar("lines", pa.string()), count),
        pa.nulls(count, pa.int32()),
        pa.repeat(pa.scalar(1000, pa.int64()), count),
        Column(None, pa.nulls(count)),
        Column(schema, pa.array(values, schema.arrow_type)),
    )


def steps_of(config: dict[str, str]) -> RecordSteps:
    chain = build_chain(config)
    steps = RecordSteps("tail", converters_of(config, {}), chain, ErrorPolicy.of(config), ProducerSettings({}))
    copied: RecordSteps = pickle.loads(pickle.dumps(steps))
    return copied


def test_groups_that_were_read_together_keep_the_order_of_their_records() -> None:
    written = Written()
    topics = (
        steps_of(STRINGS)
        .of_source(0, written)
        .to_topics([group([0, 2], ["a", "c"], STRING), group([1, 3], [1, 3], INT32)])
    )
    assert topics == ["lines"]
    assert written.values == [("lines", b"a"), ("lines", b"1"), ("lines", b"c"), ("lines", b"3")]


def test_transforms_choose_the_topic() -> None:
    written = Written()
    config = {
        **STRINGS,
        "transforms": "route",
        "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.route.regex": "(.*)",
        "transforms.route.replacement": "all-$1",
    }
    assert steps_of(config).of_source(0, written).to_topics([group([0], ["a"], STRING)]) == ["all-lines"]
    assert written.values == [("all-lines", b"a")]


def test_a_record_that_cannot_be_converted_stops_the_task() -> None:
    with pytest.raises(ToleranceExceeded):
        steps_of(INTEGERS).of_source(0, Written()).to_topics([group([0], ["a"], STRING)])


def test_a_tolerated_record_becomes_a_dead_letter_and_the_others_go_on() -> None:
    written = Written()
    steps = steps_of({**INTEGERS, **TOLERANT}).of_source(3, written)
    steps.to_topics([group([0, 2], [7, 8], INT32), group([1], ["bad"], STRING)])
    assert steps.failed == 1
    assert written.values == [("letters", b'"bad"'), ("lines", b"\0\0\0\x07"), ("lines", b"\0\0\0\x08")]
    said = {header["key"]: header["value"] for header in written.headers[0]}
    assert said["__connect.errors.connector.name"] == b"tail"
    assert said["__connect.errors.task.id"] == b"3"
    assert said["__connect.errors.stage"] == b"VALUE_CONVERTER"


class Letters:
    """Stands in for the writer of a sink's letters."""

    def __init__(self) -> None:
        self.written: list[tuple[str, bytes | None]] = []
        self.acknowledged = 0

    def write(self, topic: str, letters: pa.RecordBatch) -> None:
        self.written += [(topic, value) for value in letters.column("value").to_pylist()]

    def flush(self) -> None:
        self.acknowledged = len(self.written)


def read_batch(values: list[bytes]) -> pa.RecordBatch:
    count = len(values)
    return pa.RecordBatch.from_arrays(
        [
            pa.nulls(count, pa.binary()),
            pa.array(values, pa.binary()),
            pa.repeat("numbers", count),
            pa.repeat(pa.scalar(0, pa.int32()), count),
            pa.array(range(count), pa.int64()),
            pa.repeat(pa.scalar(1000, pa.int64()), count).cast(pa.timestamp("ms", tz="UTC")),
        ],
        names=["key", "value", "topic", "partition", "offset", "timestamp"],
    )


def test_a_sink_writes_the_letter_of_the_record_that_stops_it() -> None:
    """As Kafka Connect reports a failure before it looks at errors.tolerance."""
    letters = Letters()
    steps = steps_of({**INTEGERS, **TOLERANT, "errors.tolerance": "none"}).of_sink(0)
    steps._letters = cast("Any", letters)
    with pytest.raises(ToleranceExceeded, match="offset 1"):
        steps.to_groups(read_batch([b"\0\0\0\7", b"bad", b"too bad"]))
    assert letters.written == [("letters", b"bad")]
    assert letters.acknowledged == 1


def test_a_source_writes_no_letter_that_its_transaction_would_abort() -> None:
    written = Written()
    steps = steps_of({**INTEGERS, **TOLERANT, "errors.tolerance": "none"}).of_source(0, written)
    with pytest.raises(ToleranceExceeded):
        steps.to_topics([group([0], ["bad"], STRING)])
    assert written.values == []

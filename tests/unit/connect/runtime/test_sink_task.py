"""A task of a sink: the numbers of its records, and those that its sink refuses, at once or at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from penstock.connect.connector import RetriableError, SinkConnector, SinkWriter
from penstock.connect.converters.configured import converters_of
from penstock.connect.data.records import Failure, RecordGroup
from penstock.connect.errors.policy import ErrorPolicy
from penstock.connect.errors.tolerance import ToleranceExceeded
from penstock.connect.runtime import refused_records, sink_task
from penstock.connect.runtime.client_settings import ConsumerSettings, ProducerSettings
from penstock.connect.runtime.record_steps import RecordSteps, SinkSteps
from penstock.connect.runtime.refused_records import RecordPlaces, records_again
from penstock.connect.runtime.sink_task import SinkTask, run_sink_task
from penstock.connect.transforms.chain import TransformChain
from penstock.core.ids import TopicPartition
from penstock.pipeline.topics.planning import OffsetRange
from penstock.wire.client import FetchOptions

STRINGS = {f"{part}.converter": "org.apache.kafka.connect.storage.StringConverter" for part in ("key", "value")}
SETTINGS = ConsumerSettings({}, "g", "earliest", "read_committed", FetchOptions(), 1000)
TOLERANT = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "letters"}
TOPIC = {
    TopicPartition("t", 0): {0: b"a", 1: b"b", 5: b"c"},
    TopicPartition("t", 1): {7: b"d", 8: b"e"},
}


def read_batch(partition: TopicPartition, offsets: Sequence[int]) -> pa.RecordBatch:
    count = len(offsets)
    return pa.RecordBatch.from_arrays(
        [
            pa.nulls(count, pa.binary()),
            pa.array([TOPIC[partition][offset] for offset in offsets], pa.binary()),
            pa.repeat(partition.topic, count),
            pa.repeat(pa.scalar(partition.partition, pa.int32()), count),
            pa.array(offsets, pa.int64()),
            pa.repeat(pa.scalar(1000, pa.int64()), count).cast(pa.timestamp("ms", tz="UTC")),
        ],
        names=["key", "value", "topic", "partition", "offset", "timestamp"],
    )


@pytest.fixture(autouse=True)
def topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two records at most come at a time."""

    def read(_settings: ConsumerSettings, ranges: Sequence[OffsetRange]) -> Iterator[pa.RecordBatch]:
        for each in ranges:
            offsets = [o for o in TOPIC[each.topic_partition] if each.start_offset <= o < each.end_offset]
            for start in range(0, len(offsets), 2):
                yield read_batch(each.topic_partition, offsets[start : start + 2])

    monkeypatch.setattr(sink_task, "read_ranges", read)
    monkeypatch.setattr(refused_records, "read_ranges", read)


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    written: list[Any] = []

    def write(_steps: SinkSteps, _topic: str, letters: pa.RecordBatch) -> None:
        written.extend(letters.column("value").to_pylist())

    monkeypatch.setattr(SinkSteps, "_write_letter", write)
    return written


class Sink(SinkConnector):
    def __init__(self, *, at_once: Sequence[str] = (), at_the_end: Sequence[str] = ()) -> None:
        super().__init__("sink", {})
        self.at_once, self.at_the_end = at_once, at_the_end
        self.events: list[Any] = []

    def open_writer(self, task: int, guarantee: Any) -> SinkWriter:
        return Writer(self)


class Writer(SinkWriter):
    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._rows: dict[str, int] = {}

    def put(self, group: RecordGroup) -> Sequence[Failure]:
        put = dict(zip(group.value.values.to_pylist(), group.rows.to_pylist(), strict=True))
        self._rows |= put
        return [Failure([row], "no") for value, row in put.items() if value in self._sink.at_once]

    def finish(self) -> Any:
        refused = [Failure([self._rows[value]], "late") for value in self._sink.at_the_end]
        if refused:
            self.refuse(refused)
        self._sink.events.append("committed")
        return self._rows


def task_of(sink: Sink, config: dict[str, str], *, keeps_places: bool = False) -> SinkTask:
    steps = RecordSteps(
        "sink", converters_of(STRINGS, {}), TransformChain(), ErrorPolicy.of(config), ProducerSettings({})
    )
    ranges = [OffsetRange(partition, 0, 10) for partition in TOPIC]
    return SinkTask(0, sink, "at_least_once", SETTINGS, ranges, steps, keeps_places)


def test_rows_number_the_records_of_a_task(letters: list[Any]) -> None:
    """Batches that were numbered alike would make an old record look newer than one of a later batch."""
    result = run_sink_task(task_of(Sink(), {}))
    assert result.outcome == {"a": 0, "b": 1, "c": 2, "d": 3, "e": 4}
    assert (result.records, result.failed, result.places) == (5, 0, None)


@pytest.mark.parametrize("when", ["at_once", "at_the_end"])
def test_refused_records_become_dead_letters(letters: list[Any], when: str) -> None:
    sink = Sink(**{when: ["c", "e"]})
    result = run_sink_task(task_of(sink, TOLERANT))
    assert letters == [b"c", b"e"]
    assert result.failed == 2


def test_without_tolerance_a_late_refusal_stops_the_task_before_it_commits(letters: list[Any]) -> None:
    sink = Sink(at_the_end=["c"])
    with pytest.raises(ToleranceExceeded, match="partition 0 offset 5"):
        run_sink_task(task_of(sink, {}))
    assert sink.events == []


def test_places_are_known_to_the_driver_if_it_wants_them() -> None:
    places = run_sink_task(task_of(Sink(), {}, keeps_places=True)).places
    assert places is not None
    assert [places.of(row) for row in range(5)] == [(each, o) for each, offsets in TOPIC.items() for o in offsets]
    again = records_again(SETTINGS, places, [4, 2])
    assert dict(zip(again.column("row").to_pylist(), again.column("value").to_pylist(), strict=True)) == {
        2: b"c",
        4: b"e",
    }


def test_a_record_that_is_gone_is_no_dead_letter() -> None:
    places = RecordPlaces()
    places.add(read_batch(TopicPartition("t", 0), [0, 5]).set_column(4, "offset", pa.array([0, 3], pa.int64())))
    with pytest.raises(RetriableError, match="not in its topic any more"):
        records_again(SETTINGS, places, [1])

"""Rows into record batches: topics, partitions, and the rows that carry record batches through a shuffle."""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest

from penstock.columns.decoding import RecordColumns
from penstock.core.error_table import Retry
from penstock.core.exit_codes import ExitCode
from penstock.pipeline.failure import classify
from penstock.pipeline.topics.errors import RecordTooLarge, TopicSinkError
from penstock.pipeline.topics.row_encoding import Chunk, PartitionCounts, RowEncoder, _as_rows, chunks_of
from penstock.pipeline.topics.sink_options import read_sink_options
from penstock.protocol.error_codes import BrokerError, ErrorCode

OPTIONS = {"kafka.bootstrap.servers": "localhost:9092"}


def encoder(columns: list[str], partitions: int = 3, **options: str) -> RowEncoder:
    return RowEncoder(read_sink_options(OPTIONS | options), columns, lambda _: partitions, 0)


def values_of(chunk: Chunk) -> list[bytes]:
    columns = RecordColumns(chunk.topic, chunk.partition, 0, chunk.records, columns=["value"])
    batches = [*columns.feed(bytes(chunk.content), ()), *columns.flush()]
    return [value for batch in batches for value in batch.column(0).to_pylist()]


def rows(numbers: range, **more: Any) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array([str(number) for number in numbers], pa.string()), **more})


def test_small_inputs_are_gathered_into_one_record_batch() -> None:
    inputs = [rows(range(start, start + 10)) for start in range(0, 1000, 10)]
    (chunk,) = encoder(["value"], partitions=1, topic="t").encode(inputs)
    assert (chunk.topic, chunk.partition, chunk.records) == ("t", 0, 1000)
    assert values_of(chunk) == [b"%d" % number for number in range(1000)]


def test_batch_rows_bounds_a_record_batch() -> None:
    chunks = list(encoder(["value"], partitions=1, topic="t", batchRows="300").encode([rows(range(1000))]))
    assert [chunk.records for chunk in chunks] == [300, 300, 300, 100]


def test_rows_go_to_the_topic_that_they_name() -> None:
    topics = pa.array(["even" if number % 2 == 0 else "odd" for number in range(100)])
    chunks = list(encoder(["value", "topic"], partitions=1).encode([rows(range(100), topic=topics)]))
    found = {chunk.topic: values_of(chunk) for chunk in chunks}
    assert found == {
        "even": [b"%d" % number for number in range(0, 100, 2)],
        "odd": [b"%d" % number for number in range(1, 100, 2)],
    }


def test_a_row_without_a_topic_is_refused() -> None:
    topics = pa.array(["t", None], pa.string())
    with pytest.raises(TopicSinkError, match="null topic present in the data"):
        list(encoder(["value", "topic"]).encode([rows(range(2), topic=topics)]))


def test_a_partition_that_is_not_there_is_refused_with_the_topics_name() -> None:
    with pytest.raises(TopicSinkError, match="topic 't': column 'partition' contains 3"):
        list(encoder(["value", "partition"], topic="t").encode([rows(range(1), partition=pa.array([3], pa.int32()))]))


def test_other_columns_are_left_alone() -> None:
    timestamps = pa.array([0], pa.timestamp("us", tz="UTC"))
    (chunk,) = encoder(["value"], partitions=1, topic="t").encode([rows(range(1), timestamp=timestamps)])
    columns = RecordColumns("t", 0, 0, 1, columns=["timestamp"])
    (batch,) = [*columns.feed(bytes(chunk.content), ()), *columns.flush()]
    assert batch.column(0)[0].value > 0, "a record's time is when it was written, as with Spark's sink"


def test_record_batches_are_no_larger_than_the_topic_takes() -> None:
    """Else a topic whose max.message.bytes was lowered would refuse batches of records that fit one by one."""
    options = read_sink_options(OPTIONS | {"topic": "t"})
    limited = RowEncoder(options, ["value"], lambda _: 1, 0, lambda _: 2_000)
    chunks = list(limited.encode([rows(range(1000))]))
    assert all(len(chunk.content) <= 2_000 for chunk in chunks)
    assert [value for chunk in chunks for value in values_of(chunk)] == [b"%d" % number for number in range(1000)]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_record_that_no_batch_of_the_topic_can_hold_is_named_with_sizes_and_remedy(compression: str) -> None:
    options = read_sink_options(OPTIONS | {"topic": "t", "kafka.compression.type": compression})
    limited = RowEncoder(options, ["value"], lambda _: 1, 0, lambda _: 2_000)
    incompressible = pa.record_batch({"value": pa.array([random.Random(1).randbytes(3_000)], pa.binary())})
    with pytest.raises(
        RecordTooLarge,
        match=r"topic 't': a record takes 3\d\d\d bytes, and max.message.bytes of the topic is 2000 \(key NULL, value"
        r" '.{60}\.\.\.'\); raise it with penstock topic alter .*, or filter such rows",
    ) as refused:
        list(limited.encode([incompressible]))
    assert (refused.value.entry.exit_code, refused.value.entry.retry) == (ExitCode.SINK_REFUSED, Retry.NEVER)
    text = pa.record_batch({"value": pa.array(["x" * 3_000])})
    if compression != "none":  # what counts is the size that is sent
        assert len(list(limited.encode([text]))) == 1


def test_a_record_that_is_too_large_is_the_one_that_is_named() -> None:
    options = read_sink_options(OPTIONS | {"topic": "t"})
    limited = RowEncoder(options, ["key", "value"], lambda _: 1, 0, lambda _: 2_000)
    values = [b"small", b"line\n\xff" + b"x" * 3_000, b"last"]
    keys = [b"a", "größe".encode(), None]
    with pytest.raises(RecordTooLarge, match=re.escape(f"(key 'größe', value 'line\ufffd\ufffd{'x' * 54}...')")):
        list(limited.encode([pa.record_batch({"key": pa.array(keys), "value": pa.array(values)})]))


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ({"penstock.topic": b"orders", "penstock.partition": b"1", "penstock.offset": b"17"}, "orders partition 1 off"),
        ({"penstock.topic": b"/data/orders.json", "penstock.offset": None}, "/data/orders.json)"),
    ],
)
def test_a_dead_letter_that_is_too_large_is_named_by_its_source(source: dict[str, bytes | None], place: str) -> None:
    options = read_sink_options(OPTIONS | {"topic": "t"})
    limited = RowEncoder(options, ["value", "headers"], lambda _: 1, 0, lambda _: 2_000)
    headers = [{"key": name, "value": value} for name, value in {"penstock.reason": b"no number", **source}.items()]
    kind = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
    letter = pa.record_batch({"value": pa.array([b"x" * 3_000]), "headers": pa.array([headers], kind)})
    with pytest.raises(RecordTooLarge, match=re.escape(f"is 2000 (the dead letter of {place}")):
        list(limited.encode([letter]))


def test_a_refusal_of_the_broker_means_the_same() -> None:
    refusal = BrokerError(ErrorCode.MESSAGE_TOO_LARGE, "t-0: The batch has 3000 bytes")
    found = classify(refusal)
    assert (found.condition, found.retry) == ("PENSTOCK_RECORD_TOO_LARGE", Retry.NEVER)
    assert found.line.startswith("t-0: The batch has 3000 bytes; raise it with penstock topic alter")


def test_chunks_travel_as_rows() -> None:
    """Every partition has one writer, all writers have work, and nothing changes on the way."""
    keys = pa.array([b"%d" % number for number in range(5000)], pa.binary())
    encoded = encoder(["key", "value"], partitions=8, topic="t", batchRows="100")
    chunks = list(encoded.encode([rows(range(5000), key=keys)]))
    carried = list(_as_rows(chunks, 4))
    assert [(c.topic, c.partition, c.records, bytes(c.content)) for c in chunks_of(carried)] == [
        (c.topic, c.partition, c.records, bytes(c.content)) for c in chunks
    ]
    writers: dict[int, set[int]] = {}
    for batch in carried:
        for row in batch.to_pylist():
            writers.setdefault(row["partition"], set()).add(row["writer"])
    assert all(len(each) == 1 for each in writers.values())
    assert Counter(next(iter(each)) for each in writers.values()) == Counter({0: 2, 1: 2, 2: 2, 3: 2})


def test_partition_counts_are_asked_for_every_second(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def count(_client: object, topic: str) -> int:
        asked.append(topic)
        return len(asked)

    monkeypatch.setattr("penstock.pipeline.topics.row_encoding.partition_count", count)
    monkeypatch.setattr("penstock.pipeline.topics.row_encoding.shared_client", lambda _settings: None)
    options = read_sink_options(OPTIONS)
    now_s = 100.0
    counts = PartitionCounts(lambda: now_s)
    assert [counts.of(options, topic) for topic in ("a", "a", "b")] == [1, 1, 2]
    now_s += 1
    assert counts.of(options, "a") == 3
    assert asked == ["a", "b", "a"]

"""Columns against librdkafka over a real broker: each reads what the other wrote."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pyarrow as pa
import pytest

from penstock.columns.decoding import COLUMNS_WITH_HEADERS, RecordColumns
from penstock.columns.encoding import ColumnEncoder
from penstock.columns.partitioning import ColumnPartitioner
from penstock.core.ids import TopicPartition
from penstock.core.isolation import IsolationLevel
from penstock.protocol.compression import Compression
from penstock.wire.client import WireClient
from penstock.wire.fetch import FetchOptions
from tests.integration.client.conftest import NewTopic

TIMEOUT_S = 30.0


@pytest.fixture
def client(bootstrap_servers: str) -> Iterator[WireClient]:
    with WireClient({"bootstrap.servers": bootstrap_servers}) as client:
        yield client


def read_all(
    client: WireClient, topic: str, isolation_level: IsolationLevel = "read_uncommitted"
) -> list[dict[str, Any]]:
    """Partition 0 up to its present end, a few kilobytes a fetch so that there are many."""
    partition = TopicPartition(topic, 0)
    options = FetchOptions(max_bytes=8000, isolation_level=isolation_level)
    end = client.fetch(partition, 0, options).high_watermark
    columns = RecordColumns(topic, 0, 0, end, columns=COLUMNS_WITH_HEADERS)
    batches: list[Any] = []
    deadline = time.monotonic() + TIMEOUT_S
    while not columns.is_complete:
        assert time.monotonic() < deadline
        fetched = client.fetch(partition, columns.next_offset, options)
        batches += columns.feed(fetched.records, fetched.aborted)
    batches += columns.flush()
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_what_librdkafka_writes_becomes_columns(
    client: WireClient, bootstrap_servers: str, new_topic: NewTopic, compression: str
) -> None:
    topic = new_topic()
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap_servers, "compression.type": compression, "linger.ms": 20}
    )
    for index in range(3000):
        producer.produce(
            topic,
            key=None if index % 3 == 0 else f"key-{index}",
            value=None if index % 7 == 0 else f"value-{index}".encode() * 5,
            timestamp=1_700_000_000_000 + index,
            headers=[("name", b"%d" % index), ("nothing", None)] if index % 5 == 0 else None,
        )
    producer.flush(TIMEOUT_S)
    rows = read_all(client, topic)
    assert [row["offset"] for row in rows] == list(range(3000))
    for index, row in enumerate(rows):
        assert row["key"] == (None if index % 3 == 0 else b"key-%d" % index)
        assert row["value"] == (None if index % 7 == 0 else b"value-%d" % index * 5)
        assert round(row["timestamp"].timestamp() * 1000) == 1_700_000_000_000 + index
        assert row["headers"] == (
            [{"key": "name", "value": b"%d" % index}, {"key": "nothing", "value": None}] if index % 5 == 0 else None
        )
        assert (row["topic"], row["partition"], row["timestampType"]) == (topic, 0, 0)


def test_aborted_transactions_of_librdkafka_are_left_out(
    client: WireClient, bootstrap_servers: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    producers = []
    for name in ("a", "b"):
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap_servers, "transactional.id": f"{topic}-{name}", "linger.ms": 0}
        )
        producer.init_transactions(TIMEOUT_S)
        producers.append((name, producer))
    expected: list[bytes] = []
    for turn in range(8):  # the transactions of both are open side by side; every second one of each is aborted
        for name, producer in producers:
            producer.begin_transaction()
            for index in range(20):
                producer.produce(topic, f"{turn}-{name}-{index}")
            producer.flush(TIMEOUT_S)
        for name, producer in producers:
            if (turn % 2 == 0) == (name == "a"):
                producer.abort_transaction(TIMEOUT_S)
            else:
                producer.commit_transaction(TIMEOUT_S)
                expected += [b"%d-%s-%d" % (turn, name.encode(), index) for index in range(20)]
    rows = read_all(client, topic, isolation_level="read_committed")
    assert [row["value"] for row in rows] == expected
    everything = read_all(client, topic)
    assert len(everything) == 2 * len(expected)
    assert {row["offset"] for row in rows} < {row["offset"] for row in everything}


@pytest.mark.parametrize("compression", Compression)
def test_librdkafka_reads_what_columns_became(
    client: WireClient, bootstrap_servers: str, new_topic: NewTopic, group: str, compression: Compression
) -> None:
    topic = new_topic(partitions=3)
    rows = pa.RecordBatch.from_pydict(
        {
            "key": pa.array([None if index % 4 == 0 else b"key-%d" % index for index in range(5000)], pa.binary()),
            "value": pa.array([b"value-%d" % index * 4 for index in range(5000)], pa.binary()),
            "headers": pa.array([[{"key": "n", "value": b"%d" % index}] for index in range(5000)]),
        }
    )
    sender = client.sender(producer=client.init_producer_id())
    for partition, _, content in ColumnEncoder(ColumnPartitioner(3), compression=compression).encode(rows, 1000):
        sender.send(TopicPartition(topic, partition), content)
    sender.flush()
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest"}
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0) for partition in range(3)])
    read: list[tuple[Any, ...]] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(read) < 5000 and time.monotonic() < deadline:
        for message in consumer.consume(1000, 1.0):
            assert message.error() is None
            read.append((message.key(), message.value(), message.headers(), message.timestamp()[1]))
    consumer.close()
    expected = [(row["key"], row["value"], [("n", row["headers"][0]["value"])], 1000) for row in rows.to_pylist()]
    assert sorted(read, key=lambda each: each[1]) == sorted(expected, key=lambda each: each[1])

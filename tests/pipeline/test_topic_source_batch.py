"""`spark.read.format("penstock")` on a real session and a real broker (--broker chooses whose)."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.conftest import RunningBroker
from tests.pipeline.topic_feed import AN_HOUR_AGO_MS, Sent, TopicFeed, enqueue


@pytest.fixture(scope="module")
def feed(broker_under_test: RunningBroker) -> TopicFeed:
    return TopicFeed(broker_under_test.bootstrap_servers)


def read(spark: SparkSession, feed: TopicFeed, topic: str, **options: str) -> DataFrame:
    reader = spark.read.format("penstock").option("kafka.bootstrap.servers", feed.bootstrap_servers)
    return reader.option("subscribe", topic).options(**options).load()


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.collect()]


def test_what_was_produced_comes_back(spark: SparkSession, feed: TopicFeed) -> None:
    """All five compressions, nulls, headers, empty values and timestamps, record by record."""
    topic = feed.create(partitions=5)
    expected: set[tuple[Any, ...]] = set()
    for partition, compression in enumerate(["none", "gzip", "snappy", "lz4", "zstd"]):
        records = [
            Sent(
                partition,
                None if number % 3 == 0 else b"key-%d" % number,
                None if number % 7 == 0 else b"" if number % 11 == 0 else b"%d" % number * (number % 40),
                AN_HOUR_AGO_MS + number,
                None if number % 2 else [("a", b"%d" % number), ("a", None), ("b", b"")],
            )
            for number in range(500)
        ]
        feed.send(topic, records, compression_type=compression)
        for offset, record in enumerate(records):
            headers = tuple(record.headers) if record.headers else None
            expected.add(
                (record.key, record.value, topic, partition, offset, record.timestamp_ms, 0, headers),
            )
    frame = read(spark, feed, topic, includeHeaders="true").withColumn("timestamp", f.unix_millis("timestamp"))
    found = {
        (
            *(None if row[column] is None else bytes(row[column]) for column in ("key", "value")),
            *(row[column] for column in ("topic", "partition", "offset", "timestamp", "timestampType")),
            None
            if row["headers"] is None
            else tuple((h["key"], None if h["value"] is None else bytes(h["value"])) for h in row["headers"]),
        )
        for row in frame.collect()
    }
    assert found == expected


def test_transactions(spark: SparkSession, feed: TopicFeed) -> None:
    topic = feed.create()
    feed.numbers(topic, range(3))
    producer = feed.producer(transactional_id=f"tests-{topic}")
    producer.init_transactions()
    for number, commit in ((100, True), (200, False), (300, True)):
        producer.begin_transaction()
        enqueue(producer, topic, [Sent(0, None, b"%d" % (number + i), AN_HOUR_AGO_MS) for i in range(20)])
        producer.flush()
        if commit:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.begin_transaction()
    enqueue(producer, topic, [Sent(0, None, b"400", AN_HOUR_AGO_MS)])
    producer.flush()

    numbers = f.col("value").cast("string").cast("int")
    committed = read(spark, feed, topic, **{"kafka.isolation.level": "read_committed"}).select(numbers, "offset")
    everything = read(spark, feed, topic).select(numbers, "offset")
    expected = [*range(3), *range(100, 120), *range(300, 320)]
    assert [number for number, _ in rows(committed)] == expected
    assert [number for number, _ in rows(everything)] == [
        *range(3),
        *range(100, 120),
        *range(200, 220),
        *range(300, 320),
        400,
    ]
    # A control record follows each transaction.
    assert rows(committed)[-1][1] == 3 + 21 + 21 + 19
    producer.abort_transaction()


def test_from_the_middle_of_a_batch_to_the_middle_of_another(spark: SparkSession, feed: TopicFeed) -> None:
    topic = feed.create(partitions=2)
    feed.numbers(topic, range(2000), partitions=2)
    bounds = {
        "startingOffsets": json.dumps({topic: {"0": 123, "1": -2}}),
        "endingOffsets": json.dumps({topic: {"0": 777, "1": 5}}),
    }
    frame = read(spark, feed, topic, **bounds, minPartitions="7", columns="offset,value,partition")
    assert frame.columns == ["offset", "value", "partition"]
    assert frame.rdd.getNumPartitions() == 7
    assert sorted(rows(frame.select("partition", "offset", f.col("value").cast("string")))) == sorted(
        [(0, n, str(2 * n)) for n in range(123, 777)] + [(1, n, str(2 * n + 1)) for n in range(5)]
    )


def test_between_timestamps(spark: SparkSession, feed: TopicFeed) -> None:
    topic = feed.create()
    feed.numbers(topic, range(100))
    frame = read(
        spark, feed, topic, startingTimestamp=str(AN_HOUR_AGO_MS + 40), endingTimestamp=str(AN_HOUR_AGO_MS + 60)
    )
    assert [row[0] for row in rows(frame.select("offset"))] == list(range(40, 60))


def test_a_large_value_among_small_ones(spark: SparkSession, feed: TopicFeed) -> None:
    topic = feed.create(config={"max.message.bytes": str(32 * 1024 * 1024)})
    large = bytes(range(256)) * (20 * 1024 * 4)
    values = [b"before", large, b"after", large[::-1]]
    feed.send(topic, [Sent(0, None, value, AN_HOUR_AGO_MS) for value in values], message_max_bytes=32 * 1024 * 1024)
    hashes = [row[0] for row in rows(read(spark, feed, topic).orderBy("offset").select(f.sha2("value", 256)))]
    assert hashes == [hashlib.sha256(value).hexdigest() for value in values]


def test_an_empty_topic_has_no_rows(spark: SparkSession, feed: TopicFeed) -> None:
    assert rows(read(spark, feed, feed.create(partitions=2))) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kafka.auto.offset.reset": "earliest"}, "set startingOffsets to earliest or latest instead"),
        ({"startingOffsets": "latest"}, "starting offset can't be latest for batch queries"),
        ({"subscribe": "no-such-topic"}, "no such topic: no-such-topic"),
    ],
)
def test_a_mistake_is_told_in_a_line(
    spark: SparkSession, feed: TopicFeed, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        read(spark, feed, "any", **options).count()

"""Spark's own Kafka connector and the data source "penstock" on the same topics: equal DataFrames.

Every comparison also says how many rows there must be, so that two sources that find nothing do not agree.
"""

from __future__ import annotations

import json
import time
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.testing.apache_kafka import ApacheKafka
from tests.pipeline.topic_feed import AN_HOUR_AGO_MS, Sent, TopicFeed, enqueue

pytestmark = [pytest.mark.scale, pytest.mark.timeout(600)]

COMPRESSIONS = ["none", "gzip", "snappy", "lz4", "zstd"]
SPARKS_OWN = "kafka"
OURS = "penstock"
CLEANING_S_MAX = 60
HEADERS: list[list[tuple[str, str | bytes | None]] | None] = [
    None,
    [("a", b"1"), ("a", None), ("b", b"")],
    [("é", b"\xff\x00")],
]


class Comparison:
    """Reads with both and compares."""

    def __init__(self, spark: SparkSession, feed: TopicFeed, scratch: Path) -> None:
        self._spark = spark
        self._feed = feed
        self._scratch = scratch

    def assert_equal(self, row_count: int, **options: str) -> None:
        self._compare(row_count, *(self._read(source, options) for source in (SPARKS_OWN, OURS)))

    def assert_streams_equal(self, row_count: int, **options: str) -> None:
        self._compare(row_count, *(self._stream(source, options) for source in (SPARKS_OWN, OURS)))

    def _read(self, source: str, options: dict[str, str]) -> DataFrame:
        reader = self._spark.read.format(source).option("kafka.bootstrap.servers", self._feed.bootstrap_servers)
        return reader.options(**options).load()

    def _stream(self, source: str, options: dict[str, str]) -> DataFrame:
        name = f"{source}_{uuid.uuid4().hex}"
        reader = self._spark.readStream.format(source).option("kafka.bootstrap.servers", self._feed.bootstrap_servers)
        query = (
            reader.options(**options)
            .load()
            .writeStream.format("memory")
            .queryName(name)
            .option("checkpointLocation", str(self._scratch / name))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return self._spark.table(name)

    def _compare(self, row_count: int, theirs: DataFrame, ours: DataFrame) -> None:
        assert ours.schema == theirs.schema
        their_rows, our_rows = (frame.orderBy("topic", "partition", "offset").collect() for frame in (theirs, ours))
        assert len(their_rows) == row_count
        assert our_rows == their_rows


@pytest.fixture
def comparison(spark_with_connector: SparkSession, feed: TopicFeed, tmp_path: Path) -> Comparison:
    return Comparison(spark_with_connector, feed, tmp_path)


def varied_records(partition: int, count: int) -> list[Sent]:
    """Keys, values and headers that are there, empty or null, in every combination; values of several sizes."""
    return [
        Sent(
            partition,
            [None, b"", b"key-%d" % number][number % 3],
            [None, b"", b"%d " % number * (number % 50), b"x" * 3000][number % 4],
            AN_HOUR_AGO_MS + number,
            HEADERS[(number // 12) % len(HEADERS)],
        )
        for number in range(count)
    ]


def test_compressions_nulls_and_headers(comparison: Comparison, feed: TopicFeed) -> None:
    topic = feed.create(partitions=len(COMPRESSIONS))
    for partition, compression in enumerate(COMPRESSIONS):
        feed.send(topic, varied_records(partition, 400), compression_type=compression)
    comparison.assert_equal(2000, subscribe=topic, includeHeaders="true")
    comparison.assert_equal(2000, subscribe=topic)
    comparison.assert_streams_equal(
        2000, subscribe=topic, includeHeaders="true", startingOffsets="earliest", maxOffsetsPerTrigger="700"
    )


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
def test_transactions(comparison: Comparison, feed: TopicFeed, isolation_level: str) -> None:
    """Committed, aborted and open ones, of two producers that take turns, behind records of no transaction."""
    topic = feed.create()
    feed.numbers(topic, range(10))
    producers = [feed.producer(transactional_id=f"{topic}-{number}") for number in range(2)]
    for producer in producers:
        producer.init_transactions()
    committed = aborted = 0
    for turn in range(6):
        for number, producer in enumerate(producers):
            producer.begin_transaction()
            enqueue(producer, topic, [Sent(0, b"%d" % turn, b"%d" % i, AN_HOUR_AGO_MS + i) for i in range(30)])
            producer.flush()
            if (turn + number) % 3:
                producer.commit_transaction()
                committed += 30
            else:
                producer.abort_transaction()
                aborted += 30
    producers[0].begin_transaction()
    enqueue(producers[0], topic, [Sent(0, None, b"open", AN_HOUR_AGO_MS)])
    producers[0].flush()
    feed.numbers(topic, range(5))
    visible = 10 + committed if isolation_level == "read_committed" else 10 + committed + aborted + 1 + 5
    options = {"subscribe": topic, "kafka.isolation.level": isolation_level}
    comparison.assert_equal(visible, **options)
    comparison.assert_streams_equal(visible, startingOffsets="earliest", maxOffsetsPerTrigger="50", **options)
    producers[0].abort_transaction()


def test_offsets(comparison: Comparison, feed: TopicFeed) -> None:
    """From the middle of a batch to the middle of another, with earliest and latest among the bounds."""
    topic = feed.create(partitions=3)
    feed.numbers(topic, range(3000), partitions=3)
    bounds = {
        "startingOffsets": json.dumps({topic: {"0": 123, "1": -2, "2": 990}}),
        "endingOffsets": json.dumps({topic: {"0": 777, "1": 5, "2": -1}}),
    }
    comparison.assert_equal(654 + 5 + 10, subscribe=topic, **bounds)
    comparison.assert_equal(654 + 5 + 10, subscribe=topic, minPartitions="7", **bounds)
    comparison.assert_equal(1000, assign=json.dumps({topic: [1]}))


def test_several_topics_and_a_pattern(comparison: Comparison, feed: TopicFeed) -> None:
    family = f"family-{uuid.uuid4().hex}"
    topics = [feed.create(f"{family}.{number}") for number in range(3)]
    for number, topic in enumerate(topics):
        feed.numbers(topic, range(100 * (number + 1)))
    comparison.assert_equal(400, subscribe=f"{topics[0]},{topics[2]}")
    comparison.assert_equal(600, subscribePattern=f"{family}\\.\\d")


def test_timestamps(comparison: Comparison, feed: TopicFeed) -> None:
    topic = feed.create(partitions=2)
    feed.numbers(topic, range(200), partitions=2)
    early, late, never = (AN_HOUR_AGO_MS + after for after in (40, 100, 10_000))
    comparison.assert_equal(60, subscribe=topic, startingTimestamp=str(early), endingTimestamp=str(late))
    comparison.assert_equal(
        80,
        subscribe=topic,
        startingOffsetsByTimestamp=json.dumps({topic: {"0": early, "1": never}}),
        startingOffsetsByTimestampStrategy="latest",
    )
    comparison.assert_equal(
        20 + 100, subscribe=topic, endingOffsetsByTimestamp=json.dumps({topic: {"0": early, "1": never}})
    )


def test_the_brokers_time(comparison: Comparison, feed: TopicFeed) -> None:
    topic = feed.create(config={"message.timestamp.type": "LogAppendTime"})
    for compression in COMPRESSIONS:
        feed.send(topic, [Sent(0, None, b"%d" % i, AN_HOUR_AGO_MS) for i in range(50)], compression_type=compression)
    comparison.assert_equal(250, subscribe=topic)


def test_gaps_of_compaction(spark_with_connector: SparkSession, apache_kafka: ApacheKafka, tmp_path: Path) -> None:
    feed = TopicFeed(apache_kafka.bootstrap_servers)
    topic = feed.create(config={"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.001"})
    sent = 0
    for compression in COMPRESSIONS:
        records = [Sent(0, b"key-%d" % (n * n % 37), b"%d" % n, AN_HOUR_AGO_MS + n) for n in range(400)]
        feed.send(topic, records, compression_type=compression)
        sent += len(records)
    left, sent = await_cleaning(feed, topic, sent)
    assert left < sent // 2
    comparison = Comparison(spark_with_connector, feed, tmp_path)
    comparison.assert_equal(left, subscribe=topic)
    comparison.assert_equal(left, subscribe=topic, minPartitions="4")
    comparison.assert_streams_equal(left, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="300")


def await_cleaning(feed: TopicFeed, topic: str, sent: int) -> tuple[int, int]:
    """How many records are left once the cleaner has been there and nothing changes any more, and how many were sent.

    A segment that is written to is never cleaned, and only a record whose time is after the segment's makes a new one.
    """
    deadline = time.monotonic() + CLEANING_S_MAX
    left = sent
    while time.monotonic() < deadline:
        before = left
        time.sleep(1)
        left = record_count(feed, topic)
        if left < sent // 2 and left == before:
            return left, sent
        if left > sent // 2:
            feed.send(topic, [Sent(0, b"last", b"%d" % sent, AN_HOUR_AGO_MS + 1000 * sent)])
            sent += 1
    raise AssertionError(f"{left} of {sent} records were left after {CLEANING_S_MAX} s")


def record_count(feed: TopicFeed, topic: str) -> int:
    settings: dict[str, Any] = {"bootstrap.servers": feed.bootstrap_servers, "group.id": "counting"}
    consumer = Consumer(settings | {"enable.auto.commit": False, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, 0, 0)])
    count = 0
    try:
        while (message := consumer.poll(10)) is not None:
            if message.error() is not None:
                return count
            count += 1
    finally:
        consumer.close()
    raise AssertionError(f"the end of {topic} did not come")


def test_both_sinks_write_the_same(spark_with_connector: SparkSession, feed: TopicFeed) -> None:
    """Keys lie in the partition where Java's producer puts them."""
    spark = spark_with_connector
    topics = {source: feed.create(partitions=7) for source in (SPARKS_OWN, OURS)}
    header = f.struct(f.lit("h").alias("key"), f.col("id").cast("string").cast("binary").alias("value"))
    frame = spark.range(2000).select(
        f.concat(f.lit("key-"), f.col("id")).cast("binary").alias("key"),
        f.when(f.col("id") % 5 > 0, f.col("id").cast("string").cast("binary")).alias("value"),
        f.when(f.col("id") % 2 == 0, f.array(header)).alias("headers"),
    )
    written: dict[str, Counter[str]] = {}
    for source, topic in topics.items():
        sink = frame.write.format(source).option("kafka.bootstrap.servers", feed.bootstrap_servers)
        sink.option("topic", topic).option("includeHeaders", "true").mode("append").save()
        reader = spark.read.format(SPARKS_OWN).option("kafka.bootstrap.servers", feed.bootstrap_servers)
        rows = reader.option("subscribe", topic).option("includeHeaders", "true").load()
        written[source] = Counter(str(row) for row in rows.select("partition", "key", "value", "headers").collect())
    assert written[SPARKS_OWN].total() == 2000
    assert written[OURS] == written[SPARKS_OWN]

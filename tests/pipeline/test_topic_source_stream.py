"""`spark.readStream.format("penstock")` on a real session and a real broker (--broker chooses whose)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from tests.conftest import RunningBroker
from tests.pipeline.topic_feed import TopicFeed

PATIENCE_S = 90


@pytest.fixture(scope="module")
def feed(broker_under_test: RunningBroker) -> TopicFeed:
    return TopicFeed(broker_under_test.bootstrap_servers)


class Collected:
    """A sink that keeps the numbers of each batch; a batch that is replayed replaces what it had."""

    def __init__(self) -> None:
        self.batches: dict[int, list[int]] = {}

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        numbers = frame.select(f.col("value").cast("string").cast("int").alias("number")).collect()
        self.batches[batch_id] = [row["number"] for row in numbers]

    @property
    def numbers(self) -> list[int]:
        return sorted(number for batch in self.batches.values() for number in batch)


def stream(
    spark: SparkSession,
    feed: TopicFeed,
    sink: Callable[[DataFrame, int], None],
    checkpoint: Path,
    options: dict[str, str],
    *,
    available_now: bool = False,
) -> StreamingQuery:
    reader = spark.readStream.format("penstock").option("kafka.bootstrap.servers", feed.bootstrap_servers)
    writer = (
        reader.options(**options).load().writeStream.foreachBatch(sink).option("checkpointLocation", str(checkpoint))
    )
    return (writer.trigger(availableNow=True) if available_now else writer.trigger(processingTime="0 seconds")).start()


@contextmanager
def running(query: StreamingQuery) -> Iterator[StreamingQuery]:
    try:
        yield query
    finally:
        query.stop()


def wait_until(query: StreamingQuery, reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not reached():
        assert query.isActive, query.exception()
        assert time.monotonic() < deadline, f"nothing came; the query says {query.status}"
        time.sleep(0.05)


def run_to_the_end(query: StreamingQuery) -> list[dict[str, Any]]:
    assert query.awaitTermination(PATIENCE_S)
    return [{"rows": progress.numInputRows, "end": progress.sources[0].endOffset} for progress in query.recentProgress]


def test_runs_over_what_is_there_take_limited_batches_and_go_on(
    spark: SparkSession, feed: TopicFeed, tmp_path: Path
) -> None:
    topic = feed.create(partitions=2)
    feed.numbers(topic, range(1000), partitions=2)
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "400"}
    sink = Collected()
    progress = run_to_the_end(stream(spark, feed, sink, tmp_path, options, available_now=True))
    assert [batch["rows"] for batch in progress] == [400, 400, 200]
    assert sink.numbers == list(range(1000))

    feed.numbers(topic, range(1000, 1100), partitions=2)
    progress = run_to_the_end(stream(spark, feed, sink, tmp_path, options, available_now=True))
    assert [batch["rows"] for batch in progress] == [100]
    assert sink.numbers == list(range(1100))
    assert progress[-1]["end"] == f'{{"{topic}": {{"0": 550, "1": 550}}}}'


def test_latest_stays_where_it_was_when_the_first_batch_fails(
    spark: SparkSession, feed: TopicFeed, tmp_path: Path
) -> None:
    topic = feed.create()
    feed.numbers(topic, range(50))
    options = {"subscribe": topic, "startingOffsets": "latest"}

    def broken(frame: DataFrame, batch_id: int) -> None:
        raise RuntimeError("the first batch is not committed")

    with pytest.raises(StreamingQueryException), running(stream(spark, feed, broken, tmp_path, options)) as query:
        query.awaitTermination(PATIENCE_S)
    feed.numbers(topic, range(50, 60))
    sink = Collected()
    run_to_the_end(stream(spark, feed, sink, tmp_path, options, available_now=True))
    assert sink.numbers == list(range(50, 60))


@pytest.mark.slow
def test_partitions_and_topics_are_picked_up_while_running(
    spark: SparkSession, feed: TopicFeed, tmp_path: Path
) -> None:
    first = feed.create()
    prefix = first[:20]
    feed.numbers(first, range(10))
    sink = Collected()
    options = {"subscribePattern": f"{prefix}.*", "startingOffsets": "earliest"}
    with running(stream(spark, feed, sink, tmp_path, options)) as query:
        wait_until(query, lambda: len(sink.numbers) == 10)
        feed.add_partitions(first, 3)
        feed.numbers(first, range(12, 21, 3), partitions=1)
        feed.numbers(first, [11, 14], partitions=3)
        second = feed.create(f"{prefix}-second", partitions=2)
        feed.numbers(second, range(100, 110), partitions=2)
        wait_until(query, lambda: len(sink.numbers) == 25)
    assert sink.numbers == sorted([*range(10), 12, 15, 18, 11, 14, *range(100, 110)])


@pytest.mark.slow
@pytest.mark.parametrize("fail", [True, False])
def test_a_topic_that_is_deleted_while_it_is_read(
    spark: SparkSession, feed: TopicFeed, tmp_path: Path, fail: bool
) -> None:
    doomed, kept = feed.create(), feed.create()
    feed.numbers(doomed, range(5))
    feed.numbers(kept, range(100, 105))
    sink = Collected()
    options = {
        "subscribe": f"{doomed},{kept}",
        "startingOffsets": "earliest",
        "failOnDataLoss": str(fail).lower(),
        "fetchOffset.retryIntervalMs": "20",
    }
    with running(stream(spark, feed, sink, tmp_path, options)) as query:
        wait_until(query, lambda: len(sink.numbers) == 10)
        feed.delete(doomed)
        if fail:
            with pytest.raises(
                StreamingQueryException, match=rf"{doomed}' partition 0 is gone.* offset 5.*failOnDataLoss"
            ):
                query.awaitTermination(PATIENCE_S)
        else:
            feed.numbers(kept, range(105, 110))
            wait_until(query, lambda: len(sink.numbers) == 15)
            assert sink.numbers == [*range(5), *range(100, 110)]

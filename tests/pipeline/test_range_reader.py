"""What a task does with its range of offsets, without Spark around it."""

from __future__ import annotations

import logging

import pytest

from penstock.client.records import TopicPartition
from penstock.pipeline.topics.errors import DataLossError
from penstock.pipeline.topics.options import SourceOptions, read_batch_options
from penstock.pipeline.topics.planning import OffsetRange
from penstock.pipeline.topics.range_reader import read_range
from tests.conftest import RunningBroker
from tests.pipeline.topic_feed import TopicFeed


@pytest.fixture(scope="module")
def feed(broker_under_test: RunningBroker) -> TopicFeed:
    return TopicFeed(broker_under_test.bootstrap_servers)


def options(feed: TopicFeed, topic: str, **given: str) -> SourceOptions:
    return read_batch_options({"kafka.bootstrap.servers": feed.bootstrap_servers, "subscribe": topic} | given)


def values(options: SourceOptions, topic: str, start: int, end: int) -> list[int]:
    piece = OffsetRange(TopicPartition(topic, 0), start, end)
    return [
        int(value) for batch in read_range(options, ["value"], piece) for value in batch.column("value").to_pylist()
    ]


def test_small_answers_make_the_same_rows(feed: TopicFeed) -> None:
    topic = feed.create()
    for first in range(0, 3000, 100):
        feed.numbers(topic, range(first, first + 100))
    small = options(feed, topic, **{"kafka.max.partition.fetch.bytes": "300"})
    assert values(small, topic, 5, 2995) == list(range(5, 2995))


def test_records_that_are_deleted_before_the_task_reads_them(feed: TopicFeed, caplog: pytest.LogCaptureFixture) -> None:
    topic = feed.create()
    feed.numbers(topic, range(100))
    feed.delete_records(topic, 40)
    with pytest.raises(DataLossError, match="offset 10 was to be read next, but the earliest that is left is 40"):
        values(options(feed, topic), topic, 10, 100)
    with caplog.at_level(logging.WARNING):
        assert values(options(feed, topic, failOnDataLoss="false"), topic, 10, 100) == list(range(40, 100))
    assert "30 offsets were deleted" in caplog.text


def test_a_topic_that_is_gone_before_the_task_reads_it(feed: TopicFeed) -> None:
    topic = feed.create()
    feed.numbers(topic, range(10))
    feed.delete(topic)
    with pytest.raises(DataLossError, match="is gone"):
        values(options(feed, topic), topic, 0, 10)

"""What a task does with its range of offsets, without Spark around it."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from penstock.core.ids import TopicPartition
from penstock.pipeline.topics.errors import DataLossError
from penstock.pipeline.topics.options import SourceOptions, read_batch_options
from penstock.pipeline.topics.planning import OffsetRange
from penstock.pipeline.topics.range_reader import read_range, read_ranges
from penstock.wire.client import Pending
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


def ranges(topic: str, partitions: int, end: int) -> list[OffsetRange]:
    return [OffsetRange(TopicPartition(topic, partition), 0, end) for partition in range(partitions)]


def all_values(options: SourceOptions, pieces: list[OffsetRange]) -> list[int]:
    return [
        int(value) for batch in read_ranges(options, ["value"], pieces) for value in batch.column("value").to_pylist()
    ]


def test_a_task_reads_its_ranges_in_order_however_many_they_are(feed: TopicFeed) -> None:
    partitions = 20
    topic = feed.create(partitions=partitions)
    feed.numbers(topic, range(2000), partitions=partitions)
    expected = [number for partition in range(partitions) for number in range(partition, 2000, partitions)]
    assert all_values(options(feed, topic), ranges(topic, partitions, 100)) == expected
    small = options(feed, topic, **{"kafka.max.partition.fetch.bytes": "300"})
    assert all_values(small, ranges(topic, partitions, 100)) == expected


def test_answers_that_are_lost_on_their_way_are_asked_for_again(
    feed: TopicFeed, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = feed.create(partitions=4)
    feed.numbers(topic, range(400), partitions=4)
    pieces = ranges(topic, 4, 100)
    expected = all_values(options(feed, topic), pieces)
    assert sorted(expected) == list(range(400))
    taken, cut = Pending.response, [False, True, False, True]

    def response(pending: Pending) -> Any:
        if cut and cut.pop(0):
            pending._connection.close()  # with everything that was asked for ahead
        return taken(pending)

    monkeypatch.setattr(Pending, "response", response)
    assert all_values(options(feed, topic), pieces) == expected
    assert not cut


def test_a_range_whose_records_are_gone_does_not_harm_those_behind_it(feed: TopicFeed) -> None:
    topic = feed.create(partitions=3)
    feed.numbers(topic, range(300), partitions=3)
    feed.delete_records(topic, 40)
    left = all_values(options(feed, topic, failOnDataLoss="false"), ranges(topic, 3, 100))
    assert sorted(left) == sorted(number for number in range(300) if number % 3 or number >= 120)


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

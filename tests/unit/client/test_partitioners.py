"""Partitioners: the same partition as Java's producer, and round-robin."""

from __future__ import annotations

import pytest
from confluent_kafka import cimpl
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.partitioners import Hash, RoundRobin, murmur2
from penstock.client.topic_partitioning import TopicPartitioning
from penstock.core.errors import ClientError


@pytest.mark.parametrize(
    ("key", "java"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_is_javas(key: bytes, java: int) -> None:
    assert murmur2(key) == java % 2**32


@given(key=st.binary(max_size=70), count=st.integers(1, 1000))
def test_the_partition_is_librdkafkas(key: bytes, count: int) -> None:
    assert Hash()(key, None, count) == cimpl.murmur2(key, count)


def test_no_key_goes_anywhere() -> None:
    assert {Hash()(None, b"v", 3) for _ in range(200)} == {0, 1, 2}


def test_turns() -> None:
    turns = RoundRobin()
    assert [turns(b"same", b"v", 3) for _ in range(7)] == [0, 1, 2, 0, 1, 2, 0]


class _Topic:
    error = None

    def __init__(self, count: int) -> None:
        self.partitions = dict.fromkeys(range(count))


class _Metadata:
    def __init__(self, topic: str, count: int) -> None:
        self.topics = {topic: _Topic(count)}


class _Client:
    """The part of librdkafka that a partitioner uses: a topic's partitions."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.asked = 0

    def list_topics(self, topic: str, timeout: float) -> _Metadata:
        self.asked += 1
        return _Metadata(topic, self.count)


def test_each_topic_has_turns_of_its_own() -> None:
    partitioning = TopicPartitioning(_Client(2), RoundRobin(), age_s=60, wait_s=1)
    chosen = [(topic, partitioning.partition_for(topic, None, None)) for _ in range(2) for topic in ("a", "b")]
    assert chosen == [("a", 0), ("b", 0), ("a", 1), ("b", 1)]


def test_a_callable_gets_bytes_and_the_partition_count() -> None:
    seen = []

    def last(key: bytes | None, value: bytes | None, count: int) -> int:
        seen.append((key, value, count))
        return count - 1

    client = _Client(5)
    partitioning = TopicPartitioning(client, last, age_s=60, wait_s=1)
    assert [partitioning.partition_for("t", b"k", None) for _ in range(3)] == [4, 4, 4]
    assert seen == [(b"k", None, 5)] * 3
    assert client.asked == 1


def test_added_partitions_come_into_use() -> None:
    client = _Client(1)
    partitioning = TopicPartitioning(client, lambda _key, _value, count: count - 1, age_s=-1, wait_s=1)
    assert partitioning.partition_for("t", None, None) == 0
    client.count = 4
    assert partitioning.partition_for("t", None, None) == 3


@pytest.mark.parametrize("chosen", [-1, 2, "0", None, True, 0.5])
def test_a_partition_that_is_not_there_is_refused(chosen: object) -> None:
    partitioning = TopicPartitioning(_Client(2), lambda *_: chosen, age_s=60, wait_s=1)  # type: ignore[arg-type]
    with pytest.raises(ClientError, match="valid partitions are 0 to 1"):
        partitioning.partition_for("t", None, None)

"""The consumer against a real broker."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from penstock import Consumer, Producer, Record, TopicPartition
from penstock.core.errors import ClientError, CommitRefused, DeserializationError, InvalidClientSetting, NoOffset
from tests.clients.waiting import eventually
from tests.integration.client.conftest import NewTopic

PROTOCOLS = [
    pytest.param({}, id="eager"),
    pytest.param({"partition.assignment.strategy": "cooperative-sticky"}, id="cooperative"),
    pytest.param({"group.protocol": "consumer"}, id="kip-848"),
]


@pytest.fixture
def config(bootstrap_servers: str, group: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "fetch.max.wait.ms": 20,
    }


@pytest.fixture
def filled(bootstrap_servers: str, new_topic: NewTopic) -> str:
    """A topic of two partitions with the numbers 0 to 9 in each."""
    topic = new_topic(partitions=2)
    with Producer({"bootstrap.servers": bootstrap_servers}) as producer:
        for number in range(10):
            for partition in (0, 1):
                producer.send(topic, str(number), partition=partition)
    return topic


def read(consumer: Consumer, count: int, within_s: float = 30) -> list[Record]:
    """Polls until so many records came."""
    records: list[Record] = []
    deadline = time.monotonic() + within_s
    while len(records) < count and time.monotonic() < deadline:
        records += consumer.poll(0.2)
    assert len(records) == count, records
    return records


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_subscribing_and_going_on_where_the_group_was(
    config: dict[str, Any], filled: str, protocol: dict[str, str]
) -> None:
    first, second = TopicPartition(filled, 0), TopicPartition(filled, 1)
    assigned: list[list[TopicPartition]] = []
    revoked: list[list[TopicPartition]] = []
    with Consumer({**config, **protocol}, value_deserializer=int) as consumer:
        consumer.subscribe(filled, on_assign=assigned.append, on_revoke=revoked.append)
        records = read(consumer, 20)
        assert [record.value for record in records if record.partition == 0] == list(range(10))
        assert consumer.assignment() == {first, second}
        assert consumer.position(first) == 10
        assert consumer.committed([first, second]) == {first: None, second: None}
        consumer.commit({first: 4})
        assert consumer.committed([first, second]) == {first: 4, second: None}
        consumer.commit()
        consumer.commit({first: 7})
    assert [each for each in assigned if each] == [[first, second]]
    assert [each for each in revoked if each] == [[first, second]]
    with Consumer({**config, **protocol}, value_deserializer=int) as consumer:
        consumer.subscribe([filled])
        assert [(record.partition, record.value) for record in read(consumer, 3)] == [(0, 7), (0, 8), (0, 9)]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_seeking_in_the_callback_decides_where_a_partition_begins(
    config: dict[str, Any], filled: str, protocol: dict[str, str]
) -> None:
    with Consumer({**config, **protocol}, value_deserializer=int) as consumer:

        def begin_late(partitions: list[TopicPartition]) -> None:
            for partition in partitions:
                if partition.partition == 1:
                    consumer.seek(partition, 8)

        consumer.subscribe(filled, on_assign=begin_late)
        assert sorted((record.partition, record.value) for record in read(consumer, 12))[10:] == [(1, 8), (1, 9)]


def test_assigning_seeking_and_positions(config: dict[str, Any], filled: str) -> None:
    first, second = TopicPartition(filled, 0), TopicPartition(filled, 1)
    with Consumer(config, value_deserializer=int) as consumer:
        consumer.assign({first: 6})
        assert consumer.position(first) == 6
        assert [record.value for record in read(consumer, 4)] == [6, 7, 8, 9]
        consumer.seek(first, 2)
        assert consumer.position(first) == 2
        assert [record.value for record in read(consumer, 8)] == list(range(2, 10))
        consumer.assign([second])
        consumer.seek(second, 9)
        assert [record.value for record in read(consumer, 1)] == [9]
        assert (consumer.beginning_offset(second), consumer.end_offset(second)) == (0, 10)
        with pytest.raises(ClientError, match=f"{first}: it is not assigned to this consumer"):
            consumer.seek(first, 0)
        consumer.subscribe(filled)
        with pytest.raises(ClientError, match="unsubscribe"):
            consumer.assign([first])


def test_a_batch_is_bounded(config: dict[str, Any], filled: str) -> None:
    with Consumer({**config, "max.poll.records": 7}) as consumer:
        consumer.assign({TopicPartition(filled, 0): 0})
        deadline = time.monotonic() + 60
        while not (first := consumer.poll(0.2)) and time.monotonic() < deadline:
            pass
        assert len(first) <= 7
        assert len(consumer.poll(1, max_records=2)) <= 2


def test_pausing(config: dict[str, Any], filled: str) -> None:
    first, second = TopicPartition(filled, 0), TopicPartition(filled, 1)
    with Consumer(config) as consumer:
        consumer.assign({first: 0, second: 0})
        consumer.pause([first])
        assert {record.partition for record in read(consumer, 10)} == {1}
        assert consumer.poll(0.3) == []
        consumer.resume([first])
        assert {record.partition for record in read(consumer, 10)} == {0}


def test_committing_without_waiting(config: dict[str, Any], filled: str) -> None:
    first = TopicPartition(filled, 0)
    answers: list[tuple[object, object]] = []
    with Consumer(config) as consumer:
        consumer.subscribe(filled)
        read(consumer, 20)
        consumer.commit_async({first: 3}, on_commit=lambda *answer: answers.append(answer))
        consumer.commit_async({first: 5}, on_commit=lambda *answer: answers.append(answer))
        deadline = time.monotonic() + 60
        while len(answers) < 2 and time.monotonic() < deadline:
            consumer.poll(0.1)
        assert answers == [({first: 3}, None), ({first: 5}, None)]
        assert consumer.committed([first]) == {first: 5}


def test_automatic_commits_are_of_records_that_were_dealt_with(config: dict[str, Any], filled: str) -> None:
    automatic = {**config, "enable.auto.commit": True, "auto.commit.interval.ms": 50, "max.poll.records": 1}
    with Consumer(automatic) as consumer, Consumer(config) as watcher:
        consumer.assign({TopicPartition(filled, 0): 0})
        (held,) = read(consumer, 1)
        time.sleep(0.5)
        # It was returned, but it is unknown whether it was processed.
        assert watcher.committed([held.topic_partition]) == {held.topic_partition: None}
        consumer.poll(0.2)
        assert eventually(lambda: watcher.committed([held.topic_partition]) == {held.topic_partition: 1})


@pytest.mark.parametrize(("fails", "begins_with"), [(False, 5), (True, 4)])
def test_closing_commits_unless_something_went_wrong(
    config: dict[str, Any], filled: str, fails: bool, begins_with: int
) -> None:
    automatic = {**config, "enable.auto.commit": True, "max.poll.records": 1}
    numbers = []
    try:
        with Consumer(automatic) as consumer:
            consumer.subscribe(filled)
            consumer.poll(0.1)
            while 1 not in {each.partition for each in consumer.assignment()}:
                consumer.poll(0.1)
            consumer.pause([TopicPartition(filled, 1)])
            consumer.seek(TopicPartition(filled, 0), 0)
            for record in consumer:
                if record.partition == 0:
                    numbers.append(record.offset)
                if len(numbers) == 5:
                    break
            if fails:
                raise RuntimeError("in the middle of the fifth")
    except RuntimeError:
        assert fails
    assert numbers == [0, 1, 2, 3, 4]
    with Consumer(config) as watcher:
        partition = TopicPartition(filled, 0)
        assert watcher.committed([partition]) == {partition: begins_with}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_offset_and_nowhere_to_begin(config: dict[str, Any], filled: str, protocol: dict[str, str]) -> None:
    with Consumer({**config, **protocol, "auto.offset.reset": "none"}) as consumer:
        consumer.subscribe(filled)
        begun: dict[TopicPartition, str] = {}
        records: list[Record] = []
        deadline = time.monotonic() + 30
        while len(records) < 20 and time.monotonic() < deadline:
            try:
                records += consumer.poll(0.5)
            except NoOffset as error:
                begun[TopicPartition(error.topic, error.partition)] = str(error)
                consumer.seek(TopicPartition(error.topic, error.partition), 0)
        assert set(begun) == {TopicPartition(filled, 0), TopicPartition(filled, 1)}
        for partition, message in begun.items():
            assert message.startswith(f"{partition} has no valid committed offset")
            assert "auto.offset.reset is none" in message
        places = sorted((record.partition, record.offset) for record in records)
        assert places == [(number, offset) for number in (0, 1) for offset in range(10)]
    with Consumer({**config, "group.id": "another", "auto.offset.reset": "none"}) as other, pytest.raises(NoOffset):
        other.position(TopicPartition(filled, 0))


def test_latest_begins_at_the_end(config: dict[str, Any], bootstrap_servers: str, filled: str) -> None:
    with (
        Consumer({**config, "auto.offset.reset": "latest"}) as consumer,
        Producer({"bootstrap.servers": bootstrap_servers}) as producer,
    ):
        consumer.assign([TopicPartition(filled, 0)])
        assert consumer.position(TopicPartition(filled, 0)) == 10
        assert consumer.poll(0.5) == []
        producer.send(filled, b"new", partition=0).result(60)
        assert [record.value for record in read(consumer, 1)] == [b"new"]


def test_a_record_that_cannot_be_read_is_named_and_can_be_passed(
    config: dict[str, Any], bootstrap_servers: str, new_topic: NewTopic
) -> None:
    topic = new_topic()
    partition = TopicPartition(topic, 0)
    with Producer({"bootstrap.servers": bootstrap_servers}) as producer:
        for value in ("1", "two", "3"):
            producer.send(topic, value)
    with Consumer(config, value_deserializer="json") as consumer:
        consumer.assign({partition: 0})
        assert [record.value for record in read(consumer, 1)] == [1]
        for _ in range(2):
            with pytest.raises(DeserializationError, match=f"topic '{topic}' partition 0 offset 1: the value cannot"):
                read(consumer, 1)
        consumer.seek(partition, 2)
        assert [record.value for record in read(consumer, 1)] == [3]


def test_iterating_until_stop(config: dict[str, Any], filled: str) -> None:
    with Consumer(config, value_deserializer=int) as consumer:
        consumer.assign({TopicPartition(filled, 0): 0})
        stopper = threading.Timer(1.0, consumer.stop)
        stopper.start()
        assert [record.value for record in consumer] == list(range(10))
        stopper.join()
        # What was asked for before the beginning counts too, and once.
        consumer.stop()
        assert consumer.run(print, guarantee="at_least_once") == 0
        consumer.seek(TopicPartition(filled, 0), 8)
        assert consumer.run(lambda _record: None, guarantee="at_least_once", stop_when_idle_s=1) == 2


@pytest.mark.slow
def test_a_member_that_was_put_out_cannot_commit(config: dict[str, Any], filled: str) -> None:
    """It slept longer than `max.poll.interval.ms` allows, as a handler may."""
    with Consumer({**config, "max.poll.interval.ms": 6_000, "session.timeout.ms": 6_000}) as consumer:
        lost: list[list[TopicPartition]] = []
        consumer.subscribe(filled, on_lost=lost.append)
        read(consumer, 20)
        time.sleep(7.5)
        with pytest.raises(CommitRefused):
            consumer.commit()
        consumer.poll(1)
        assert lost == [[TopicPartition(filled, 0), TopicPartition(filled, 1)]]


def test_a_group_is_needed_to_subscribe_and_to_commit(bootstrap_servers: str, filled: str) -> None:
    with Consumer({"bootstrap.servers": bootstrap_servers}) as consumer:
        consumer.assign({TopicPartition(filled, 0): 0})
        read(consumer, 10)
        with pytest.raises(InvalidClientSetting, match=r"group\.id is missing"):
            consumer.commit()
        with pytest.raises(InvalidClientSetting, match=r"group\.id is missing"):
            consumer.subscribe(filled)


def test_a_closed_consumer_says_so(config: dict[str, Any]) -> None:
    consumer = Consumer(config)
    consumer.close()
    consumer.close()
    with pytest.raises(ClientError, match="the consumer is closed"):
        consumer.poll(0)

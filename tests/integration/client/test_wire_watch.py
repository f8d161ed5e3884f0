"""RecordWatch: it returns for new records only, and never after its timeout."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

from penstock.core.ids import TopicPartition
from penstock.wire.client import WireClient
from tests.integration.client.conftest import NewTopic

LONG_MS = 20_000


@pytest.fixture
def client(bootstrap_servers: str) -> Iterator[WireClient]:
    with WireClient({"bootstrap.servers": bootstrap_servers}) as client:
        yield client


def send_later(bootstrap_servers: str, topic: str, partition: int, delay_s: float) -> threading.Timer:
    def send() -> None:
        producer = Producer({"bootstrap.servers": bootstrap_servers})
        producer.produce(topic, b"x" * 1000, partition=partition)
        producer.flush()

    timer = threading.Timer(delay_s, send)
    timer.start()
    return timer


def test_a_record_in_any_partition_ends_the_wait(
    bootstrap_servers: str, new_topic: NewTopic, client: WireClient
) -> None:
    topic = new_topic(partitions=3)
    ends = {TopicPartition(topic, index): 0 for index in range(3)}
    client.list_offsets(dict.fromkeys(ends, "latest"))  # every partition has its leader then
    with client.record_watch() as watch:
        for round_number in (1, 2):
            sender = send_later(bootstrap_servers, topic, 2, 0.3)
            started = time.monotonic()
            watch.wait(ends, LONG_MS)
            assert 0.2 < time.monotonic() - started < LONG_MS / 2000
            sender.join()
            ends[TopicPartition(topic, 2)] = round_number


def test_nothing_comes(new_topic: NewTopic, client: WireClient) -> None:
    orders = TopicPartition(new_topic(), 0)
    client.list_offsets({orders: "latest"})
    with client.record_watch() as watch:
        started = time.monotonic()
        watch.wait({orders: 0}, 300)
        assert 0.25 < time.monotonic() - started < 5


def test_an_open_transaction_wakes_only_those_who_read_it(
    bootstrap_servers: str, new_topic: NewTopic, client: WireClient
) -> None:
    topic = new_topic()
    producer = Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": topic})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    producer.flush()
    ends = {TopicPartition(topic, 0): 0}
    with client.record_watch() as everything, client.record_watch(isolation_level="read_committed") as committed:
        started = time.monotonic()
        everything.wait(ends, LONG_MS)
        assert time.monotonic() - started < LONG_MS / 2000
        started = time.monotonic()
        committed.wait(ends, 400)
        assert time.monotonic() - started > 0.3
        ending = threading.Timer(0.2, producer.commit_transaction)
        ending.start()
        started = time.monotonic()
        committed.wait(ends, LONG_MS)
        assert time.monotonic() - started < LONG_MS / 2000
        ending.join()


def test_trouble_ends_the_wait_without_an_error(new_topic: NewTopic, client: WireClient) -> None:
    topic = new_topic()
    with client.record_watch() as watch:
        started = time.monotonic()
        watch.wait({TopicPartition(topic, 7): 0}, 200)  # no such partition
        watch.wait({TopicPartition(topic, 0): 5}, 200)  # behind the end
        assert time.monotonic() - started < 5

"""The guarantees during rebalances: without a crash, nothing may be lost or repeated beyond the guarantee."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from penstock import Consumer, KafkaTransaction, Producer, Record, SQLiteStore
from tests.clients.waiting import eventually
from tests.integration.client.conftest import NewTopic
from tests.integration.client.test_consumer import PROTOCOLS
from tests.integration.client.test_guarantees import values_of

PARTITIONS = 4
RECORDS = 1_200
PATIENCE_S = 60

pytestmark = [pytest.mark.timeout(180), pytest.mark.slow]


class Member(threading.Thread):
    """A consumer that runs until it is told to leave."""

    def __init__(self, config: dict[str, Any], topic: str, handler: Any, options: dict[str, Any]) -> None:
        super().__init__()
        self._topic = topic
        self._handler = handler
        self._options = options
        self._consumer = Consumer({**config, "client.id": self.name})
        self.failure: BaseException | None = None
        self.handled = 0

    def run(self) -> None:
        try:
            with self._consumer as consumer:
                consumer.subscribe(self._topic)
                self.handled = consumer.run(self._handler, **self._options)
        except BaseException as failure:
            self.failure = failure

    def has_partitions(self) -> bool:
        return bool(self._consumer.assignment())

    def leave(self) -> None:
        self._consumer.stop()
        self.join(PATIENCE_S)
        assert not self.is_alive()
        if self.failure is not None:
            raise self.failure


class Flow:
    """Records that keep coming while members do."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap_servers})
        self._topic = topic
        self._sent = 0

    def send(self, count: int) -> None:
        for number in range(self._sent, self._sent + count):
            self._producer.send(self._topic, str(number), partition=number % PARTITIONS)
            time.sleep(0.002)
        self._sent += count

    def close(self) -> None:
        self._producer.close()


@contextmanager
def flowing(bootstrap_servers: str, topic: str) -> Iterator[Flow]:
    flow = Flow(bootstrap_servers, topic)
    try:
        yield flow
    finally:
        flow.close()


def come_and_go(make: Any, flow: Flow, seen: Any) -> list[Member]:
    """One member, then two, then three, then two that were not the first; records come while they settle."""
    members = [make() for _ in range(3)]
    for member in members:
        member.start()
        flow.send(RECORDS // 8)
        assert eventually(member.has_partitions, within_s=PATIENCE_S)
        flow.send(RECORDS // 8)
    members[0].leave()
    flow.send(RECORDS // 4)
    deadline = time.monotonic() + PATIENCE_S
    while seen() < RECORDS and time.monotonic() < deadline:
        time.sleep(0.05)
    for member in members[1:]:
        member.leave()
    return members


EVERY_VALUE = dict.fromkeys((str(number) for number in range(RECORDS)), 1)


@pytest.fixture
def config(bootstrap_servers: str, group: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "max.poll.records": 20,
        "fetch.max.wait.ms": 20,
    }


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("guarantee", ["at_most_once", "at_least_once"])
def test_offsets_of_the_group(
    bootstrap_servers: str, new_topic: NewTopic, config: dict[str, Any], protocol: dict[str, str], guarantee: str
) -> None:
    topic = new_topic(partitions=PARTITIONS)
    values: list[str] = []

    def handler(record: Record) -> None:
        values.append(record.value.decode())

    with flowing(bootstrap_servers, topic) as flow:
        members = come_and_go(
            lambda: Member({**config, **protocol}, topic, handler, {"guarantee": guarantee}),
            flow,
            lambda: len(set(values)),
        )
    counts = Counter(values)
    assert set(counts) == set(EVERY_VALUE)
    if guarantee == "at_most_once":
        assert counts == EVERY_VALUE
    assert sum(member.handled > 0 for member in members) >= 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_offsets_in_a_database(
    bootstrap_servers: str, new_topic: NewTopic, config: dict[str, Any], protocol: dict[str, str], tmp_path: Path
) -> None:
    topic = new_topic(partitions=PARTITIONS)
    database = tmp_path / "results.db"
    connection = sqlite3.connect(database)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE results (value TEXT)")
    connection.commit()

    def handler(record: Record, transaction: sqlite3.Connection) -> None:
        transaction.execute("INSERT INTO results VALUES (?)", (record.value.decode(),))

    def make() -> Member:
        options = {"guarantee": "exactly_once", "store": SQLiteStore(database)}
        return Member({**config, **protocol}, topic, handler, options)

    def seen() -> int:
        ((count,),) = connection.execute("SELECT count(*) FROM results").fetchall()
        return int(count)

    try:
        with flowing(bootstrap_servers, topic) as flow:
            members = come_and_go(make, flow, seen)
        values = Counter(value for (value,) in connection.execute("SELECT value FROM results"))
    finally:
        connection.close()
    assert values == EVERY_VALUE
    assert sum(member.handled > 0 for member in members) >= 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_offsets_in_a_kafka_transaction(
    bootstrap_servers: str, new_topic: NewTopic, config: dict[str, Any], protocol: dict[str, str]
) -> None:
    topic, output = new_topic(partitions=PARTITIONS), new_topic()
    producers: list[Producer] = []
    handled: set[str] = set()

    def handler(record: Record, transaction: Producer) -> None:
        transaction.send(output, record.value)
        handled.add(record.value.decode())

    def make() -> Member:
        name = f"{config['group.id']}-{len(producers)}"
        producers.append(Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": name}))
        options = {"guarantee": "exactly_once", "store": KafkaTransaction(producers[-1])}
        return Member({**config, **protocol}, topic, handler, options)

    try:
        with flowing(bootstrap_servers, topic) as flow:
            members = come_and_go(make, flow, lambda: len(handled))
    finally:
        for producer in producers:
            producer.close()
    assert Counter(values_of(bootstrap_servers, output, "read_committed")) == EVERY_VALUE
    assert sum(member.handled > 0 for member in members) >= 2

"""Fills topics for tests of the Spark source, with a client that nobody here wrote, and remembers what it wrote."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

# Recent enough for brokers that delete what is a week old by its own account.
AN_HOUR_AGO_MS: Final = int(time.time() * 1000) - 3_600_000


class Sent(NamedTuple):
    partition: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: list[tuple[str, str | bytes | None]] | None = None


class TopicFeed:
    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self._admin = AdminClient({"bootstrap.servers": bootstrap_servers})

    def create(self, name: str = "", *, partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        name = name or f"topic-{uuid.uuid4().hex}"
        topic = NewTopic(name, partitions, 1, config=dict(config or {}))
        self._admin.create_topics([topic])[name].result()
        return name

    def delete(self, name: str) -> None:
        self._admin.delete_topics([name])[name].result()
        while name in self._admin.list_topics(timeout=60).topics:
            time.sleep(0.05)

    def add_partitions(self, name: str, total: int) -> None:
        self._admin.create_partitions([NewPartitions(name, total)])[name].result()
        while len(self._admin.list_topics(name, timeout=60).topics[name].partitions) != total:
            time.sleep(0.05)

    def delete_records(self, topic: str, before: int) -> None:
        """Those of partition 0 that lie before this offset."""
        place = TopicPartition(topic, 0, before)
        self._admin.delete_records([place])[TopicPartition(topic, 0)].result()

    def send(self, topic: str, records: Iterable[Sent], **settings: Any) -> list[Sent]:
        producer = self.producer(**settings)
        sent = list(records)
        enqueue(producer, topic, sent)
        producer.flush()
        return sent

    def numbers(self, topic: str, numbers: Iterable[int], *, partitions: int = 1) -> None:
        """Records whose values are these numbers, dealt to the partitions in turn."""
        self.send(topic, [Sent(n % partitions, None, b"%d" % n, AN_HOUR_AGO_MS + n) for n in numbers])

    def producer(self, **settings: Any) -> Producer:
        renamed = {name.replace("_", "."): value for name, value in settings.items()}
        return Producer({"bootstrap.servers": self.bootstrap_servers, "linger.ms": 5} | renamed)


def enqueue(producer: Producer, topic: str, records: Iterable[Sent]) -> None:
    for record in records:
        producer.produce(
            topic,
            partition=record.partition,
            key=record.key,
            value=record.value,
            timestamp=record.timestamp_ms,
            headers=record.headers,
        )
        producer.poll(0)

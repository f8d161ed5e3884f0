"""A real Apache Kafka starts, ends and comes back with its data."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from penstock.testing.apache_kafka import ApacheKafka, ApacheKafkaError, kafka_jars, run_kafka_tool
from penstock.testing.java import JavaMissingError, find_java
from tests.conftest import optional_part_missing


@pytest.fixture(scope="module", autouse=True)
def _installed() -> None:
    try:
        find_java()
        kafka_jars()
    except JavaMissingError as missing:
        optional_part_missing(str(missing))


@pytest.fixture(scope="module")
def kafka() -> Iterator[ApacheKafka]:
    with ApacheKafka(config={"num.partitions": "3"}, heap="512M") as kafka:
        yield kafka


def _produce(kafka: ApacheKafka, topic: str, count: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for number in range(count):
        producer.produce(topic, str(number), partition=0)
    assert producer.flush(20) == 0


def _read(kafka: ApacheKafka, topic: str, count: int) -> list[bytes | None]:
    """Reads through a consumer, which waits on its own for a leader that is still loading after a restart."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "never-joined"})
    values: list[bytes | None] = []
    deadline = time.monotonic() + 60
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        while len(values) < count and time.monotonic() < deadline:
            values += [message.value() for message in consumer.consume(count, timeout=0.2) if message.error() is None]
    finally:
        consumer.close()
    return values


@pytest.mark.slow
def test_serves_as_soon_as_it_has_started(kafka: ApacheKafka) -> None:
    _produce(kafka, "served", 10)
    assert _read(kafka, "served", 10) == [b"%d" % number for number in range(10)]
    os.kill(kafka.pid, 0)


@pytest.mark.slow
def test_takes_settings(kafka: ApacheKafka) -> None:
    _produce(kafka, "auto-created", 1)
    partitions = {path.name for path in kafka.data_dir.glob("auto-created-*")}
    assert partitions == {"auto-created-0", "auto-created-1", "auto-created-2"}


@pytest.mark.slow
def test_keeps_port_and_data_over_a_restart(kafka: ApacheKafka) -> None:
    _produce(kafka, "kept", 10)
    before = kafka.bootstrap_servers, kafka.pid
    kafka.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", kafka.port))
    kafka.start()
    assert kafka.bootstrap_servers == before[0]
    assert kafka.pid != before[1]
    assert _read(kafka, "kept", 10) == [b"%d" % number for number in range(10)]


def test_failing_start_shows_the_reason_and_leaves_no_process(tmp_path: Path) -> None:
    kafka = ApacheKafka(data_dir=tmp_path, config={"num.partitions": "minus one"})
    with pytest.raises(ApacheKafkaError, match="minus one"):
        kafka.start()
    with pytest.raises(ApacheKafkaError, match="not running"):
        _ = kafka.pid


def test_failing_tool_shows_what_it_printed() -> None:
    with pytest.raises(ApacheKafkaError, match="no-such-option"):
        run_kafka_tool("org.apache.kafka.tools.DumpLogSegments", ["--no-such-option"])

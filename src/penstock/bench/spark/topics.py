"""Topics for queries: fills them before a measurement, and counts rows afterwards."""

from __future__ import annotations

import os
import time
import uuid
from typing import Final

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, TopicPartition

from penstock.bench.measurement import MeasurementError
from penstock.bench.raw_client import RawClient
from penstock.bench.raw_frames import record_batch
from penstock.bench.topics import create_topic

# Large enough to fill a topic quickly, small enough to match a producer with ordinary settings.
_BATCH_BYTES: Final = 65_536


def fill(bootstrap_servers: str, topic: str, *, partitions: int, row_bytes: int, rows: int, time_limit_s: float) -> int:
    """Creates a topic with about `rows` rows without keys, evenly over its partitions; returns their number."""
    create_topic(bootstrap_servers, topic, time_limit_s, partitions)
    rows_per_batch = max(1, _BATCH_BYTES // row_bytes)
    batch = record_batch(rows_per_batch, os.urandom(row_bytes), int(time.time() * 1000))
    rounds = max(1, round(rows / (rows_per_batch * partitions)))
    with RawClient(bootstrap_servers, topic, time_limit_s) as client:
        for _ in range(rounds):
            for partition in range(partitions):
                answer = client.produce(partition, batch)
                if answer.error:
                    raise MeasurementError(f"filling {topic}: error {answer.error}")
    return rounds * partitions * rows_per_batch


def reader(bootstrap_servers: str, topic: str, partitions: int) -> Consumer:
    """Consumes committed records of all partitions from the beginning, without delay."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": uuid.uuid4().hex,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.queue.backoff.ms": 10,
        }
    )
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    return consumer


def committed_rows(bootstrap_servers: str, topic: str, partitions: int, time_limit_s: float) -> int:
    """The number of committed rows up to the ends of the partitions."""
    consumer = reader(bootstrap_servers, topic, partitions)
    deadline_s = time.monotonic() + time_limit_s
    found = 0
    ended: set[int] = set()
    try:
        while len(ended) < partitions:
            if time.monotonic() > deadline_s:
                raise MeasurementError(f"{topic} could not be read within {time_limit_s:g} s")
            for message in consumer.consume(10_000, timeout=0.1):
                error = message.error()
                if error is None:
                    found += 1
                elif error.code() == KafkaError._PARTITION_EOF:
                    ended.add(message.partition() or 0)
                else:
                    raise MeasurementError(f"{topic} could not be read: {error}")
    finally:
        consumer.close()
    return found

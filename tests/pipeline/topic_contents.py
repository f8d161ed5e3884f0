"""What a topic holds, read by a client that nobody here wrote."""

from __future__ import annotations

import time
import uuid
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

_PATIENCE_S = 120.0


class Found(NamedTuple):
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def contents(servers: str, topic: str, *, isolation_level: str = "read_committed") -> list[Found]:
    """Everything up to the ends of the partitions; with read_committed, up to the last stable offsets."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": uuid.uuid4().hex,
            "isolation.level": isolation_level,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    try:
        partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
        consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in partitions])
        ended: set[int] = set()
        found = []
        deadline = time.monotonic() + _PATIENCE_S
        while len(ended) < len(partitions):
            assert time.monotonic() < deadline, f"topic {topic} has no end"
            message = consumer.poll(1.0)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                ended.add(message.partition() or 0)
                continue
            headers: Any = message.headers() or []
            found.append(Found(message.partition() or 0, message.key(), message.value(), tuple(map(tuple, headers))))
        return found
    finally:
        consumer.close()

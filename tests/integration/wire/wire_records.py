"""Topics, batches and records for tests of the wire client, made without the wire client."""

from __future__ import annotations

from uuid import uuid4

import confluent_kafka

from penstock import Admin
from penstock.protocol.record_batch import parse_header
from penstock.protocol.record_encoding import NewRecord, encode_batch
from penstock.protocol.records import read_records
from tests.clients.waiting import eventually

NOW_MS = 1_700_000_000_000


def new_topic(servers: str, partitions: int = 1, **config: str) -> str:
    admin = Admin({"bootstrap.servers": servers})
    topic = f"wire-{uuid4().hex[:12]}"
    admin.create_topic(
        topic, partitions=partitions, config={name.replace("_", "."): value for name, value in config.items()}
    )
    assert eventually(lambda: topic in admin.list_topics())
    return topic


def batch_of(*values: bytes) -> bytes:
    batch, _ = encode_batch([NewRecord(None, value, NOW_MS) for value in values])
    return bytes(batch)


def values_of(records: memoryview) -> list[bytes | None]:
    """The values of all records of all batches, control batches left out."""
    values, position = [], 0
    while position < len(records):
        header = parse_header(records, position)
        if not header.is_control:
            batch = records[position : position + header.size]
            values += [record.value for record in read_records(batch, header, 1 << 26)]
        position += header.size
    return values


def committed_values(servers: str, topic: str, count: int, *, wait_s: float = 10) -> list[bytes]:
    """What librdkafka reads as read_committed: up to `count` records, or what there is when all partitions ended."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"reader-{uuid4().hex}",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
        }
    )
    partitions = consumer.list_topics(topic, timeout=60).topics[topic].partitions
    consumer.assign([confluent_kafka.TopicPartition(topic, index, 0) for index in partitions])
    values: list[bytes] = []
    ended: set[int] = set()
    while len(values) < count and len(ended) < len(partitions):
        message = consumer.poll(wait_s)
        assert message is not None, "neither a record nor an end of a partition"
        if message.error():
            ended.add(message.partition() or 0)
        else:
            values.append(message.value() or b"")
    consumer.close()
    return sorted(values)

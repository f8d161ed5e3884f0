"""What clients hand over: a record that was read, where a record was written, and the name of a partition.

Named tuples rather than dataclasses: one is made for every record, and a tuple is made in a third of the time.

Invariant: nothing here knows confluent-kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from penstock.core.ids import TopicPartition


class RecordMetadata(NamedTuple):
    """Where a record was written. With acks=0 nobody knows the offset, and it is -1."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since 1970: the producer's time, or the broker's if the topic says `LogAppendTime`."""


class Record(NamedTuple):
    """A record that was read; `key` and `value` are what the deserializers made of them."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since 1970."""
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int | None

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


def first_offsets(records: Iterable[Record]) -> dict[TopicPartition, int]:
    """Where reading has to begin again to get all of these records. Records of one partition are in their order."""
    offsets: dict[TopicPartition, int] = {}
    for record in records:
        offsets.setdefault(record.topic_partition, record.offset)
    return offsets


def next_offsets(records: Iterable[Record]) -> dict[TopicPartition, int]:
    """The progress that reading all of these records is: what a commit says, as Kafka counts it."""
    return {record.topic_partition: record.offset + 1 for record in records}

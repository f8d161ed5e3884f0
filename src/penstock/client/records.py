"""Records as the consumer returns them, and the metadata that the producer returns for a sent record.

Named tuples rather than dataclasses: there is one per record, and creating a tuple takes a third of the time.
Must never know confluent-kafka.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from penstock.core.ids import TopicPartition


class RecordMetadata(NamedTuple):
    """Where a record was written. `offset` is -1 with acks=0."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since the epoch: the producer's time, or the broker's if the topic uses `LogAppendTime`."""


class Record(NamedTuple):
    """A record that was read; `key` and `value` are deserialized."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Milliseconds since the epoch."""
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...]
    leader_epoch: int | None

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class SourceRecord(Record):
    """A record with the bytes that it was deserialized from."""

    raw_key: bytes | None
    raw_value: bytes | None


class Undecodable(SourceRecord):
    """A record whose key or value could not be deserialized: both are bytes. Handlers never receive it."""

    reason: str


def first_offsets(records: Iterable[Record]) -> dict[TopicPartition, int]:
    """The offsets from which all of these records can be read again. Records of one partition must be in order."""
    offsets: dict[TopicPartition, int] = {}
    for record in records:
        offsets.setdefault(record.topic_partition, record.offset)
    return offsets


def next_offsets(records: Iterable[Record]) -> dict[TopicPartition, int]:
    """The offsets to commit after processing all of these records."""
    return {record.topic_partition: record.offset + 1 for record in records}

"""Converts librdkafka's messages into records, and its error events into exceptions.

Owns deserialization, and which of librdkafka's errors are raised. It must never know positions or commits.

Invariant: an error from which the consumer recovers by itself is logged and never raised.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from penstock.client.errors import from_kafka_error
from penstock.client.records import Record, SourceRecord, Undecodable
from penstock.client.serializers import Deserializer
from penstock.core.errors import ClientError, DeserializationError, NoOffset
from penstock.core.ids import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Message

_NO_OFFSET: Final = -140
END_OF_PARTITION: Final = -191
# As in Java's consumer: poll interval exceeded, unknown topic, connections, timeouts, coordinator changes.
_RECOVERABLE: Final = frozenset({-147, 3, -187, -195, -193, -185, 7, 14, 15, 16, -180})
_log = logging.getLogger("penstock.consumer")


class RecordReader:
    def __init__(self, key_of: Deserializer, value_of: Deserializer) -> None:
        self._key_of = key_of
        self._value_of = value_of
        self.keeps_undecodable = False
        """Return what cannot be deserialized as `Undecodable`, instead of raising."""
        self.keeps_bytes = False
        """Return records with the bytes that they were deserialized from."""

    def read_all(self, messages: Iterable[Message]) -> tuple[list[Record], list[DeserializationError]]:
        """The records, and the first failure of each partition. What follows a failure in its partition is left out."""
        records: list[Record] = []
        failures: dict[TopicPartition, DeserializationError] = {}
        for message in messages:
            if failures and partition_of(message) in failures:
                continue
            try:
                records.append(self.read(message))
            except DeserializationError as failure:
                failures[partition_of(message)] = failure
        return records, list(failures.values())

    def read(self, message: Message) -> Record:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        key, value = message.key(), message.value()
        found: Any = message.headers()
        timestamp, headers, epoch = message.timestamp()[1], tuple(found or ()), message.leader_epoch()
        part = "key"
        try:
            key_object = None if key is None else self._key_of(key)
            part = "value"
            value_object = None if value is None else self._value_of(value)
        except Exception as failure:
            reason = f"the {part} cannot be deserialized ({type(failure).__name__}: {failure})"
            if self.keeps_undecodable:
                undecodable = Undecodable(topic, partition, offset, timestamp, key, value, headers, epoch)
                undecodable.raw_key, undecodable.raw_value, undecodable.reason = key, value, reason
                return undecodable
            raise DeserializationError(
                f"{TopicPartition(topic, partition)} offset {offset}: {reason}",
                topic=topic,
                partition=partition,
                offset=offset,
            ) from failure
        if self.keeps_bytes:
            record = SourceRecord(topic, partition, offset, timestamp, key_object, value_object, headers, epoch)
            record.raw_key, record.raw_value = key, value
            return record
        return Record(topic, partition, offset, timestamp, key_object, value_object, headers, epoch)


def partition_of(message: Message) -> TopicPartition:
    topic, partition = message.topic(), message.partition()
    assert topic is not None
    assert partition is not None
    return TopicPartition(topic, partition)


def error_of(event: Message) -> ClientError | None:
    """The exception for an error event; None if the consumer recovers by itself."""
    error = event.error()
    assert error is not None
    code, topic, partition = error.code(), event.topic(), event.partition()
    if code == _NO_OFFSET and topic is not None and partition is not None:
        return no_offset(TopicPartition(topic, partition))
    subject = "the consumer" if topic is None else f"topic '{topic}'"
    if code in _RECOVERABLE and not error.fatal():
        _log.warning("%s: %s", subject, error.str())
        return None
    return from_kafka_error(error, subject)


def no_offset(partition: TopicPartition) -> NoOffset:
    return NoOffset(
        f"{partition} has no valid committed offset, and auto.offset.reset is none: "
        "seek to an offset, or set auto.offset.reset to earliest or latest",
        topic=partition.topic,
        partition=partition.partition,
    )

"""Reads dead-letter topics: which topics are some, and the letters of one.

Owns the consumer for that. It joins no group and commits nothing; it reads committed records up to the end that a
partition has when the reading starts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from penstock.client.dead_letters.done import Done, done_of
from penstock.client.dead_letters.letter import DeadLetter, is_dead_letter, letter_of
from penstock.client.errors import from_kafka_error
from penstock.core.errors import BrokerUnreachable, UnknownTopic

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

_TIMEOUT_S: Final = 10.0
_STALL_S: Final = 30.0
_CHUNK_RECORDS: Final = 500
# Room for the control records of the transactions that letters are published in.
_PROBED_OFFSETS: Final = 4


def replay_group(topic: str) -> str:
    """The group whose offsets say which letters were replayed; also the transactional id of a replay."""
    return f"{topic}.replay"


class DeadLetterTopics:
    """`configuration` is librdkafka's. A context manager that closes its consumer."""

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        from confluent_kafka import Consumer

        self._configuration = dict(configuration)
        self._consumer: Consumer = Consumer(
            {
                **self._configuration,
                "group.id": "penstock-dead-letters",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "fetch.wait.max.ms": 10,
            }
        )

    def __enter__(self) -> DeadLetterTopics:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def names(self) -> list[str]:
        """Topics whose newest records are dead letters."""
        topics = self._asked("the list of topics", lambda: self._consumer.list_topics(timeout=_TIMEOUT_S)).topics
        return sorted(topic for topic in topics if not topic.startswith("__") and self._ends_with_letters(topic))

    def partitions(self, topic: str) -> list[int]:
        """Raises UnknownTopic."""
        found = self._asked(f"topic '{topic}'", lambda: self._consumer.list_topics(topic, timeout=_TIMEOUT_S))
        metadata = found.topics[topic]
        if metadata.error is not None or not metadata.partitions:
            raise UnknownTopic(f"topic '{topic}' does not exist; `penstock dead-letters list` shows those with letters")
        return sorted(metadata.partitions)

    def done(self, topic: str) -> dict[int, Done]:
        """What was replayed, by partition."""
        from confluent_kafka import Consumer, TopicPartition

        places = [TopicPartition(topic, partition) for partition in self.partitions(topic)]
        asking = Consumer({**self._configuration, "group.id": replay_group(topic), "enable.auto.commit": False})
        try:
            committed = self._asked(
                f"group '{replay_group(topic)}'", lambda: asking.committed(places, timeout=_TIMEOUT_S)
            )
        finally:
            asking.close()
        return {place.partition: done_of(place.offset, place.metadata) for place in committed}

    def letters(self, topic: str, starts: Mapping[int, int] | None = None) -> Iterator[DeadLetter]:
        """All letters of a topic, partition by partition, from the earliest or from these offsets on."""
        for partition in self.partitions(topic):
            first, end = self.bounds(topic, partition)
            first = max(first, (starts or {}).get(partition, 0))
            for message in self.records(topic, partition, first, end):
                yield letter_of(message)

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """The first offset of a partition, and its end."""
        from confluent_kafka import TopicPartition

        place = TopicPartition(topic, partition)
        first, end = self._asked(
            f"topic '{topic}'", lambda: self._consumer.get_watermark_offsets(place, timeout=_TIMEOUT_S, cached=False)
        )
        return int(first), int(end)

    def records(self, topic: str, partition: int, first: int, end: int) -> Iterator[Message]:
        """Committed records of a range of offsets."""
        from confluent_kafka import KafkaError, TopicPartition

        if first >= end:
            return
        self._consumer.assign([TopicPartition(topic, partition, first)])
        deadline = time.monotonic() + _STALL_S
        while True:
            for message in self._consumer.consume(_CHUNK_RECORDS, 0.5):
                deadline = time.monotonic() + _STALL_S
                error = message.error()
                if error is None:
                    offset = message.offset()
                    assert offset is not None
                    if offset >= end:
                        return
                    yield message
                    if offset + 1 >= end:
                        return
                elif error.code() == KafkaError._PARTITION_EOF:
                    return
                elif not error.retriable():
                    raise from_kafka_error(error, f"topic '{topic}'")
            if time.monotonic() > deadline:
                raise BrokerUnreachable(
                    f"topic '{topic}' partition {partition}: no record arrived for {_STALL_S:.0f} s"
                )

    def record_at(self, topic: str, partition: int, offset: int) -> Message | None:
        """One record; None if it is gone."""
        from penstock.core.errors import ClientError

        try:
            first, end = self.bounds(topic, partition)
        except ClientError:
            return None
        if not first <= offset < end:
            return None
        found = next(self.records(topic, partition, offset, offset + 1), None)
        return found if found is not None and found.offset() == offset else None

    def _ends_with_letters(self, topic: str) -> bool:
        for partition in self.partitions(topic):
            first, end = self.bounds(topic, partition)
            for message in self.records(topic, partition, max(first, end - _PROBED_OFFSETS), end):
                return is_dead_letter(message)
        return False

    def _asked(self, subject: str, ask: Callable[[], Any]) -> Any:
        from confluent_kafka import KafkaException

        try:
            return ask()
        except KafkaException as failure:
            raise from_kafka_error(failure.args[0], subject) from failure

"""Records that `Consumer.run` cannot process: what they become, and how they reach their dead-letter topic.

Owns the policy (`on_error`, `on_handler_error`), the form of a dead letter, and the producer that publishes letters
outside a transaction. The header names are those of pipelines (`core/dead_letters.py`). It must never know offsets or
commits: a session adds letters to the commit of their batch.

Invariant: a dead letter has the bytes of the record as they were read, and all of its headers.
"""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from penstock.client.records import SourceRecord
from penstock.core import dead_letters as headers_of
from penstock.core.dead_letters import Stage
from penstock.core.errors import InvalidClientSetting, TopicExists
from penstock.core.ids import TopicPartition

if TYPE_CHECKING:
    from penstock.client.producer import Producer

OnError = Literal["stop", "drop"] | Mapping[str, str]
"""What happens to a record that cannot be processed, in the words of pipelines."""

_EXPECTED: Final = "expected 'stop', 'drop' or {'dead_letters': TOPIC}"
_log = logging.getLogger("penstock.delivery")


class DeadLetter(NamedTuple):
    topic: str
    """The dead-letter topic."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    source: TopicPartition
    offset: int

    def to_json(self) -> str:
        """For a column of text in a database."""
        return json.dumps(
            {
                "topic": self.topic,
                "key": _text(self.key),
                "value": _text(self.value),
                "headers": [[name, _text(value)] for name, value in self.headers],
                "source": list(self.source),
                "offset": self.offset,
            }
        )

    @classmethod
    def from_json(cls, text: str) -> DeadLetter:
        content = json.loads(text)
        return cls(
            content["topic"],
            _bytes(content["key"]),
            _bytes(content["value"]),
            tuple((name, _bytes(value)) for name, value in content["headers"]),
            TopicPartition(*content["source"]),
            content["offset"],
        )


@dataclass(frozen=True, slots=True)
class ErrorPolicy:
    """`topic` is the dead-letter topic; None: the record is dropped, or the run stops."""

    stops: bool
    topic: str | None = None

    @classmethod
    def parse(cls, option: str, declared: OnError | None, *, default: ErrorPolicy) -> ErrorPolicy:
        if declared is None:
            return default
        if declared == "stop":
            return STOP
        if declared == "drop":
            return cls(stops=False)
        topic = declared.get("dead_letters") if isinstance(declared, Mapping) and len(declared) == 1 else None
        if isinstance(topic, str) and topic:
            return cls(stops=False, topic=topic)
        raise InvalidClientSetting(f"{option}={declared!r}: {_EXPECTED}")

    def letter(self, record: SourceRecord, reason: str, stage: Stage, group: str) -> DeadLetter | None:
        """None if the record is dropped."""
        if self.topic is None:
            return None
        own = {
            headers_of.REASON: reason,
            headers_of.STAGE: stage,
            headers_of.TOPIC: record.topic,
            headers_of.PARTITION: str(record.partition),
            headers_of.OFFSET: str(record.offset),
            headers_of.PIPELINE: group,
        }
        kept = tuple((name, value) for name, value in record.headers if name not in own)
        described = tuple((name, text.encode()) for name, text in own.items())
        return DeadLetter(
            self.topic, record.raw_key, record.raw_value, kept + described, record.topic_partition, record.offset
        )


STOP: Final = ErrorPolicy(stops=True)


class DeadLetterProducer:
    """Publishes dead letters of runs without a Kafka transaction. Connects with the first letter."""

    def __init__(self, connection: Mapping[str, Any]) -> None:
        """`connection` has Kafka's setting names."""
        self._connection = dict(connection)
        self._producer: Producer | None = None
        self._known: set[str] = set()

    def publish(self, letters: Sequence[DeadLetter]) -> None:
        """Returns when brokers have acknowledged all of them; raises the ClientError that prevents it."""
        if not letters:
            return
        producer = self._connected()
        for topic in {letter.topic for letter in letters} - self._known:
            ensure_topic(self._connection, topic)
            self._known.add(topic)
        deliveries = [forward(producer, letter) for letter in letters]
        producer.flush()
        for delivery in deliveries:
            delivery.result()

    def close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()

    def _connected(self) -> Producer:
        if self._producer is None:
            from penstock.client.producer import Producer

            self._producer = Producer(self._connection)
        return self._producer


def ensure_topic(connection: Mapping[str, Any], topic: str) -> None:
    """Creates the dead-letter topic if it does not exist, with the broker's defaults."""
    from penstock.client.admin import Admin

    admin = Admin(connection)
    if topic not in admin.list_topics():
        try:
            admin.create_topic(topic)
        except TopicExists:
            return
        _log.warning("created the dead-letter topic '%s'", topic)


def forward(producer: Producer, letter: DeadLetter) -> Any:
    return producer.send_bytes(letter.topic, letter.value, key=letter.key, headers=letter.headers)


def _text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)

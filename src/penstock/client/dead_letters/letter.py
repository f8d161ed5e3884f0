"""A dead letter as it is read: the record that could not be processed, and what its headers say of it.

Owns the reading of those headers (`core/dead_letters.py` names those of pipelines and consumers,
`core/connect_dead_letters.py` those of connectors). It must not know consumers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.core import connect_dead_letters as connect
from penstock.core import dead_letters as names

# What a reason quotes of the row differs from letter to letter.
_QUOTED_VALUE: Final = re.compile(r"(got |= |: )'.*?'(?=$|, |\))")

_DIGITS_MAX: Final = 19  # of 64 bits


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """`partition` and `offset` are its own; `source_*` say where the record was read. Absent headers are None."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int | None
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, bytes | None]]
    """Those of the record itself, as far as they are known."""
    reason: str | None
    stage: str | None
    pipeline: str | None
    source_topic: str | None
    source_partition: int | None
    source_offset: int | None
    attempt: int = 0
    """How often the record has been replayed before, as far as it is known (`originals.py`)."""

    @property
    def has_headers(self) -> bool:
        """Whether it has those of its record, if the record has any. Letters of connectors do; others may."""
        return bool(self.headers) or self.attempt > 0 or self.stage in connect.STAGES

    @property
    def kind(self) -> str:
        """The reason without the values that it quotes, to count letters by."""
        return _QUOTED_VALUE.sub(r"\1'...'", self.reason or "no reason given")

    @property
    def source(self) -> str:
        if self.source_topic is None:
            return "unknown"
        if self.source_offset is None:
            return self.source_topic
        return f"{self.source_topic} partition {self.source_partition} offset {self.source_offset}"


def is_dead_letter(record: Any) -> bool:
    return any(name in (names.REASON, connect.STAGE) for name, _ in record.headers() or ())


def letter_of(record: Any) -> DeadLetter:
    """`record` is a message of confluent-kafka."""
    all_headers: list[tuple[str, bytes | None]] = list(record.headers() or ())
    own = [(name, value) for name, value in all_headers if not name.startswith((names.PREFIX, connect.PREFIX))]
    said = {name: _text(value) for name, value in all_headers if name.startswith((names.PREFIX, connect.PREFIX))}
    # A letter that failed again has both a pipeline's headers and a connector's; the later ones count.
    last = next((name for name, _ in reversed(all_headers) if name in (names.REASON, connect.STAGE)), names.REASON)
    kind, timestamp = record.timestamp()
    is_of_connector = last == connect.STAGE
    return DeadLetter(
        topic=record.topic(),
        partition=record.partition(),
        offset=record.offset(),
        timestamp_ms=timestamp if kind else None,
        key=record.key(),
        value=record.value(),
        headers=own,
        reason=_connector_reason(said) if is_of_connector else said.get(names.REASON),
        stage=said.get(connect.STAGE if is_of_connector else names.STAGE),
        pipeline=said.get(connect.CONNECTOR_NAME if is_of_connector else names.PIPELINE),
        source_topic=said.get(connect.TOPIC if is_of_connector else names.TOPIC),
        source_partition=_number(said.get(connect.PARTITION if is_of_connector else names.PARTITION)),
        source_offset=_number(said.get(connect.OFFSET if is_of_connector else names.OFFSET)),
        attempt=attempt_of(all_headers),
    )


def attempt_of(headers: Iterable[tuple[str, bytes | str | None]]) -> int:
    """0 for a record that was not replayed. A value that no replay writes counts as none."""
    said = [_number(_text(value)) for name, value in headers if name == names.REPLAY_ATTEMPT]
    return (said[-1] or 0) if said else 0


def _connector_reason(said: Mapping[str, str | None]) -> str | None:
    """Class and message, as the stack trace begins: many of Kafka's messages say little without the class."""
    java_class, message = said.get(connect.EXCEPTION_CLASS), said.get(connect.EXCEPTION_MESSAGE)
    if java_class is None:
        return message
    simple = java_class.rpartition(".")[2]
    return f"{simple}: {message.strip()}" if message else simple


def _text(value: bytes | str | None) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() and len(text) <= _DIGITS_MAX else None

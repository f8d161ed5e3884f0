"""A dead letter as it is read: the record that could not be processed, and what its headers say of it.

Owns the reading of those headers (`core/dead_letters.py` names them). It must not know consumers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.core import dead_letters as names

# What a reason quotes of the row differs from letter to letter.
_QUOTED_VALUE: Final = re.compile(r"(got |= |: )'.*?'(?=$|, |\))")


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
    return any(name == names.REASON for name, _ in record.headers() or ())


def letter_of(record: Any) -> DeadLetter:
    """`record` is a message of confluent-kafka."""
    all_headers: list[tuple[str, bytes | None]] = list(record.headers() or ())
    said = {name: _text(value) for name, value in all_headers if name in names.HEADERS}
    kind, timestamp = record.timestamp()
    return DeadLetter(
        topic=record.topic(),
        partition=record.partition(),
        offset=record.offset(),
        timestamp_ms=timestamp if kind else None,
        key=record.key(),
        value=record.value(),
        headers=[(name, value) for name, value in all_headers if not name.startswith(names.PREFIX)],
        reason=said.get(names.REASON),
        stage=said.get(names.STAGE),
        pipeline=said.get(names.PIPELINE),
        source_topic=said.get(names.TOPIC),
        source_partition=_number(said.get(names.PARTITION)),
        source_offset=_number(said.get(names.OFFSET)),
    )


def _text(value: bytes | str | None) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None

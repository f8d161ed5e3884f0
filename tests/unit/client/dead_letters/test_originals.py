"""Attempts and headers of the records that letters are of."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from penstock.client.dead_letters.letter import DeadLetter
from penstock.client.dead_letters.originals import completed, with_attempts
from penstock.client.dead_letters.replay import is_quarantined
from penstock.client.dead_letters.topics import DeadLetterTopics
from penstock.core.ids import TopicPartition

ORDERS = TopicPartition("orders", 0)
Headers = list[tuple[str, bytes | None]]


@dataclass
class Original:
    content: bytes
    sent: Headers | None

    def value(self) -> bytes:
        return self.content

    def headers(self) -> Headers | None:
        return self.sent


@dataclass
class Topics:
    """`orders`, by offset."""

    records: dict[int, Original]
    read: list[int] = field(default_factory=list)

    def records_at(
        self, offsets: Mapping[TopicPartition, Collection[int]]
    ) -> Iterator[tuple[TopicPartition, int, Original]]:
        for offset in sorted(offsets.get(ORDERS, ())):
            self.read.append(offset)
            if offset in self.records:
                yield ORDERS, offset, self.records[offset]


def letter(offset: int, **changed: Any) -> DeadLetter:
    known: dict[str, Any] = {
        "topic": "dlq", "partition": 0, "offset": offset, "timestamp_ms": None, "key": None, "value": b"v",
        "headers": (), "reason": "r", "stage": "parse", "pipeline": "p", "source_topic": "orders",
        "source_partition": 0, "source_offset": offset,
    }  # fmt: skip
    return DeadLetter(**(known | changed))


def reader(topics: Topics) -> DeadLetterTopics:
    return cast("DeadLetterTopics", topics)


def test_headers_and_attempt_of_a_pipelines_letter_are_those_of_its_record() -> None:
    topics = Topics(
        {
            0: Original(b"v", [("trace", b"1"), ("penstock.replay.attempt", b"2")]),
            1: Original(b"another record", [("penstock.replay.attempt", b"9")]),
            2: Original(b"v", None),
        }
    )
    found = completed(reader(topics), [letter(0), letter(1), letter(2), letter(3), letter(4, source_topic=None)])
    assert [(each.attempt, list(each.headers)) for each in found] == [
        (2, [("trace", b"1")]),
        (0, []),
        (0, []),
        (0, []),
        (0, []),
    ]
    assert topics.read == [0, 1, 2, 3]


def test_letters_with_headers_need_no_look_at_their_records() -> None:
    topics = Topics({})
    known = [letter(0, attempt=1), letter(1, stage="TASK_PUT"), letter(2, headers=[("trace", b"1")])]
    assert completed(reader(topics), known) == known
    assert topics.read == []


def test_attempts_are_looked_up_for_those_that_are_wanted() -> None:
    topics = Topics({offset: Original(b"v", [("penstock.replay.attempt", b"1")]) for offset in range(1200)})
    letters = (letter(offset) for offset in range(1200))
    found = list(with_attempts(reader(topics), letters, lambda each: each.offset >= 600))
    assert [each.offset for each in found] == list(range(1200)), "all of them, in their order"
    assert [each.offset for each in found if each.attempt] == topics.read == list(range(600, 1200))


def test_a_letter_is_quarantined_after_as_many_attempts() -> None:
    assert [is_quarantined(letter(0, attempt=attempt), 2) for attempt in range(4)] == [False, False, True, True]
    assert not is_quarantined(letter(0, attempt=99), 0), "0 is no limit"

"""A dead letter as it is read from its headers."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from penstock.client.dead_letters.letter import is_dead_letter, letter_of


@dataclass
class Record:
    """What confluent-kafka's Message answers."""

    sent: list[tuple[str, bytes | None]] | None = field(default_factory=list)

    def topic(self) -> str:
        return "dlq"

    def partition(self) -> int:
        return 1

    def offset(self) -> int:
        return 7

    def timestamp(self) -> tuple[int, int]:
        return 1, 1_700_000_000_000

    def key(self) -> bytes | None:
        return b"k"

    def value(self) -> bytes | None:
        return None

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self.sent


def test_headers_of_the_record_are_told_from_those_of_the_letter() -> None:
    letter = letter_of(
        Record(
            [
                ("trace", b"\xff"),
                ("penstock.reason", b"the value is null"),
                ("penstock.stage", b"parse"),
                ("penstock.topic", b"orders"),
                ("penstock.partition", b"2"),
                ("penstock.offset", b"41"),
                ("penstock.pipeline", b"revenue"),
                ("trace", None),
            ]
        )
    )
    assert list(letter.headers) == [("trace", b"\xff"), ("trace", None)]
    assert (letter.reason, letter.stage, letter.pipeline) == ("the value is null", "parse", "revenue")
    assert letter.source == "orders partition 2 offset 41"
    assert (letter.key, letter.value) == (b"k", None)


def test_a_letter_of_a_connector_has_kafka_connects_headers() -> None:
    record = Record(
        [
            ("trace", b"1"),
            ("__connect.errors.topic", b"orders"),
            ("__connect.errors.partition", b"2"),
            ("__connect.errors.offset", b"41"),
            ("__connect.errors.connector.name", b"warehouse"),
            ("__connect.errors.task.id", b"0"),
            ("__connect.errors.stage", b"VALUE_CONVERTER"),
            ("__connect.errors.class.name", b"org.apache.kafka.connect.json.JsonConverter"),
            ("__connect.errors.exception.class.name", b"org.apache.kafka.connect.errors.DataException"),
            ("__connect.errors.exception.message", b"no JSON: "),
        ]
    )
    assert is_dead_letter(record)
    letter = letter_of(record)
    assert list(letter.headers) == [("trace", b"1")]
    assert letter.reason == "DataException: no JSON:"
    assert (letter.stage, letter.pipeline) == ("VALUE_CONVERTER", "warehouse")
    assert letter.source == "orders partition 2 offset 41"


def test_the_last_failure_of_a_letter_counts() -> None:
    connector = [("__connect.errors.stage", b"TASK_PUT"), ("__connect.errors.connector.name", b"warehouse")]
    pipeline = [("penstock.reason", b"r"), ("penstock.stage", b"parse"), ("penstock.pipeline", b"revenue")]
    assert letter_of(Record([*connector, *pipeline])).pipeline == "revenue"
    assert letter_of(Record([*pipeline, *connector])).pipeline == "warehouse"


def test_a_letter_of_a_file_has_neither_partition_nor_offset() -> None:
    letter = letter_of(
        Record([("penstock.reason", b"r"), ("penstock.topic", b"file:/a.json"), ("penstock.offset", None)])
    )
    assert (letter.source, letter.source_offset) == ("file:/a.json", None)


@pytest.mark.parametrize(("value", "attempt"), [(b"3", 3), (b"x", 0), (None, 0), (b"-1", 0), (b"9" * 30, 0)])
def test_a_letter_of_a_replayed_record_knows_its_attempt(value: bytes | None, attempt: int) -> None:
    letter = letter_of(Record([("penstock.replay.attempt", value), ("penstock.reason", b"r")]))
    assert (letter.attempt, list(letter.headers)) == (attempt, [])
    assert not is_dead_letter(Record([("penstock.replay.attempt", b"1")])), "the record itself is no letter"


def test_letters_of_pipelines_may_lack_the_headers_of_their_records() -> None:
    reason = ("penstock.reason", b"r")
    assert not letter_of(Record([reason])).has_headers
    assert letter_of(Record([reason, ("trace", b"1")])).has_headers
    assert letter_of(Record([reason, ("penstock.replay.attempt", b"1")])).has_headers
    assert letter_of(Record([("__connect.errors.stage", b"TASK_PUT")])).has_headers


def test_another_record_is_no_letter() -> None:
    assert not is_dead_letter(Record(None))
    assert not is_dead_letter(Record([("trace", b"1")]))
    assert letter_of(Record(None)).source == "unknown"


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("column 'amount' is DOUBLE as declared, got 'it's much'", "column 'amount' is DOUBLE as declared, got '...'"),
        ("the value is not a JSON object: 'x'", "the value is not a JSON object: '...'"),
        ("(a / b) fails for a = '1', b = '0'", "(a / b) fails for a = '...', b = '...'"),
        ("breaks expect 'sign': a > 0 (a = '-1')", "breaks expect 'sign': a > 0 (a = '...')"),
        ("the value is null", "the value is null"),
    ],
)
def test_letters_are_counted_without_what_their_reasons_quote(reason: str, kind: str) -> None:
    assert letter_of(Record([("penstock.reason", reason.encode())])).kind == kind

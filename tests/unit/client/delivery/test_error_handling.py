"""Records that cannot be processed stop the run, are dropped, or become dead letters in the commit of their batch."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from penstock.client.delivery import loop
from penstock.client.delivery.dead_letters import DeadLetter
from penstock.client.delivery.deduplication import Deduplicated
from penstock.client.delivery.handler_error import HandlerError
from penstock.client.delivery.sqlite_store import SQLiteStore
from penstock.client.record_reading import RecordReader
from penstock.client.records import Record
from penstock.core.errors import BrokerUnreachable, DeserializationError, InvalidClientSetting
from penstock.core.ids import TopicPartition
from tests.unit.client.fake_consumer import FakeConsumer, FakePublisher, kept, undecodable

P0 = TopicPartition("t", 0)
BAD = {"dead_letters": "bad"}


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> FakePublisher:
    found = FakePublisher()
    monkeypatch.setattr(loop, "DeadLetterProducer", lambda _connection: found)
    return found


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "results.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE results (value TEXT)")
    connection.close()
    return path


def go(consumer: FakeConsumer, handler: Any, guarantee: Any, store: Any = None, **options: Any) -> int:
    given: dict[str, Any] = {"batch": False, "stop_when_idle_s": 0, **options}
    return loop.run(consumer, handler, guarantee, store, **given)  # type: ignore[arg-type]


def rows(database: Path, table: str) -> list[str]:
    connection = sqlite3.connect(database)
    try:
        return [value for (value,) in connection.execute(f"SELECT * FROM {table} ORDER BY rowid")]
    finally:
        connection.close()


def three() -> FakeConsumer:
    return FakeConsumer([kept(0), undecodable(1), kept(2)])


@pytest.mark.parametrize("guarantee", ["at_most_once", "at_least_once"])
@pytest.mark.parametrize("batch", [False, True])
def test_an_undecodable_record_becomes_a_dead_letter(publisher: FakePublisher, guarantee: str, batch: bool) -> None:
    consumer = three()
    handled: list[int] = []

    def handler(given: Any) -> None:
        handled.extend(each.offset for each in (given if batch else [given]))

    assert go(consumer, handler, guarantee, on_error=BAD, batch=batch) == 3
    assert handled == [0, 2]
    assert publisher.published == [
        DeadLetter(
            topic="bad",
            key=b"k",
            value=b"\xff",
            headers=(
                ("trace", b"1"),
                ("penstock.reason", b"the value cannot be deserialized (ValueError: no)"),
                ("penstock.stage", b"parse"),
                ("penstock.topic", b"t"),
                ("penstock.partition", b"0"),
                ("penstock.offset", b"1"),
                ("penstock.pipeline", b"g"),
            ),
            source=P0,
            offset=1,
        )
    ]
    assert consumer.offsets_committed == {P0: 3}


def test_without_a_word_one_undecodable_record_stops_nothing_and_is_kept(publisher: FakePublisher) -> None:
    assert go(three(), lambda _record: None, "at_least_once") == 3
    assert [letter.topic for letter in publisher.published] == ["g.dlq"]


def test_a_record_can_be_dropped(publisher: FakePublisher, caplog: pytest.LogCaptureFixture) -> None:
    assert go(three(), lambda _record: None, "at_least_once", on_error="drop") == 3
    assert publisher.published == []
    assert [record.getMessage() for record in caplog.records] == [
        "a record was dropped: topic 't' partition 0 offset 1: the value cannot be deserialized (ValueError: no)"
    ]


def test_the_run_stops_where_that_is_asked_for(publisher: FakePublisher) -> None:
    consumer = three()
    go(FakeConsumer([kept(0)]), lambda _record: None, "at_least_once", on_error="stop")
    reader = RecordReader(lambda data: data, lambda data: data)
    assert (reader.keeps_undecodable, reader.keeps_bytes) == (False, False)
    go(consumer, lambda _record: None, "at_least_once", on_error=BAD, on_handler_error=BAD)
    assert (consumer.errors.keeps_undecodable, consumer.errors.keeps_bytes) == (True, True)


def test_a_letter_that_cannot_be_published_keeps_its_record_uncommitted(publisher: FakePublisher) -> None:
    publisher.failure = BrokerUnreachable("no broker")
    consumer = three()
    with pytest.raises(BrokerUnreachable):
        go(consumer, lambda _record: None, "at_least_once", on_error=BAD)
    assert consumer.offsets_committed == {P0: 1}
    assert consumer.positions[P0] == 1


class Failing:
    def __init__(self, *offsets: int) -> None:
        self.handled: list[int] = []
        self._offsets = offsets

    def __call__(self, each: Record, *transaction: Any) -> None:
        self.handled.append(each.offset)
        for connection in transaction:
            connection.execute("INSERT INTO results VALUES (?)", (each.value,))
        if each.offset in self._offsets:
            raise ValueError("no good")


@pytest.mark.parametrize("guarantee", ["at_most_once", "at_least_once"])
def test_a_failed_handler_can_have_dead_letters_too(publisher: FakePublisher, guarantee: str) -> None:
    consumer = FakeConsumer([kept(offset) for offset in range(4)], batch_size=4)
    handler = Failing(1)
    assert go(consumer, handler, guarantee, on_handler_error=BAD) == 4
    assert handler.handled == [0, 1, 2, 3]
    (letter,) = publisher.published
    headers = dict(letter.headers)
    assert (letter.value, letter.offset) == (b"1", 1)
    assert headers["penstock.stage"] == b"handle"
    assert headers["penstock.reason"] == b"the handler raised ValueError: no good"
    assert consumer.offsets_committed == {P0: 4}


def test_a_handlers_exception_stops_the_run_unless_declared(publisher: FakePublisher) -> None:
    with pytest.raises(HandlerError):
        go(FakeConsumer([kept(0)]), Failing(0), "at_least_once", on_error=BAD)
    assert publisher.published == []


@pytest.mark.parametrize("wrap", [lambda store: store, Deduplicated])
def test_a_dead_letter_is_part_of_the_databases_commit(publisher: FakePublisher, database: Path, wrap: Any) -> None:
    consumer = FakeConsumer([kept(0), undecodable(1), kept(2), kept(3)], batch_size=4)
    handler = Failing(2)
    store = wrap(SQLiteStore(database))
    assert go(consumer, handler, "exactly_once", store, on_error=BAD, on_handler_error=BAD) == 4
    assert rows(database, "results") == ["0", "3"], "what the failed handler wrote is rolled back"
    assert [letter.offset for letter in publisher.published] == [1, 2]
    assert rows(database, "penstock_consumer_dead_letters") == []
    assert consumer.offsets_committed == {P0: 4}


def test_letters_that_could_not_be_published_follow_later(publisher: FakePublisher, database: Path) -> None:
    publisher.failure = BrokerUnreachable("no broker")
    records = [kept(0), undecodable(1)]
    assert go(FakeConsumer(records), Failing(), "exactly_once", SQLiteStore(database), on_error=BAD) == 2
    connection = sqlite3.connect(database)
    assert connection.execute("SELECT count(*) FROM penstock_consumer_dead_letters").fetchall() == [(1,)]
    connection.close()
    publisher.failure = None
    assert go(FakeConsumer(records), Failing(), "exactly_once", SQLiteStore(database), on_error=BAD) == 0
    assert [(letter.value, letter.source, letter.offset) for letter in publisher.published] == [(b"\xff", P0, 1)]


@pytest.mark.parametrize("declared", ["skip", {}, {"dead_letters": ""}, {"dead_letter": "x"}, {"dead_letters": 3}, 7])
def test_another_word_is_refused(declared: Any) -> None:
    with pytest.raises(InvalidClientSetting, match=r"on_error=.*: expected 'stop', 'drop' or {'dead_letters': TOPIC}"):
        go(three(), lambda _record: None, "at_least_once", on_error=declared)


def test_of_a_batch_no_record_fails_alone() -> None:
    with pytest.raises(InvalidClientSetting, match="on_handler_error requires batch=False"):
        go(three(), lambda _records: None, "at_least_once", on_handler_error="drop", batch=True)


class Message:
    """As far as the reader reads it."""

    def __init__(self, value: bytes) -> None:
        self._value = value

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 7

    def key(self) -> bytes:
        return b"k"

    def value(self) -> bytes:
        return self._value

    def headers(self) -> None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return 1, 5

    def leader_epoch(self) -> None:
        return None


def test_the_reader_keeps_what_it_is_asked_to_keep() -> None:
    reader = RecordReader(lambda data: data, int)
    assert type(reader.read(Message(b"1"))) is Record  # type: ignore[arg-type]
    with pytest.raises(DeserializationError, match="topic 't' partition 0 offset 7: the value cannot be deserialized"):
        reader.read(Message(b"x"))  # type: ignore[arg-type]
    reader.keeps_undecodable = reader.keeps_bytes = True
    bad: Any = reader.read(Message(b"x"))  # type: ignore[arg-type]
    assert (bad.raw_key, bad.raw_value, bad.value) == (b"k", b"x", b"x")
    assert bad.reason.startswith("the value cannot be deserialized (ValueError: ")
    good: Any = reader.read(Message(b"1"))  # type: ignore[arg-type]
    assert (good.value, good.raw_value) == (1, b"1")

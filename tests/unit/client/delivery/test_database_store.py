"""Effect and offset in one database transaction, and ownership of partitions. SQLite represents both databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from penstock.client.delivery.deduplication import Deduplicated
from penstock.client.delivery.handler_error import HandlerError
from penstock.client.delivery.loop import run
from penstock.client.delivery.sqlite_store import SQLiteStore
from penstock.client.delivery.store_url import store_at
from penstock.client.records import Record
from penstock.core.errors import ClientError, InvalidClientSetting
from penstock.core.ids import TopicPartition
from penstock.core.mirrored_offsets import MirroredFrom
from tests.unit.client.fake_consumer import FakeConsumer, FakePublisher, record

P0 = TopicPartition("t", 0)


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "results.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE results (value TEXT)")
    connection.close()
    return path


def results(database: Path) -> list[str]:
    connection = sqlite3.connect(database)
    try:
        return [value for (value,) in connection.execute("SELECT value FROM results ORDER BY rowid")]
    finally:
        connection.close()


def keep(each: Record, transaction: sqlite3.Connection) -> None:
    transaction.execute("INSERT INTO results VALUES (?)", (each.value.decode(),))


def go(consumer: FakeConsumer, handler: Any, store: Any) -> int:
    return run(consumer, handler, "exactly_once", store, batch=False, stop_when_idle_s=0)  # type: ignore[arg-type]


def test_a_run_goes_on_where_the_database_is(database: Path) -> None:
    records = [record(offset) for offset in range(6)]
    assert go(FakeConsumer(records[:4]), keep, SQLiteStore(database)) == 4
    # A new process: the group knows nothing, the database does.
    later = FakeConsumer(records)
    assert go(later, keep, SQLiteStore(database)) == 2
    assert results(database) == ["0", "1", "2", "3", "4", "5"]
    assert later.was_exactly_once
    assert later.offsets_committed == {P0: 6}, "the group's offsets follow, for lag monitoring"


def test_the_groups_offsets_say_that_they_are_a_copy(database: Path) -> None:
    consumer = FakeConsumer([record(0)])
    go(consumer, keep, SQLiteStore(database))
    assert MirroredFrom.from_metadata(consumer.metadata[P0] or "") == MirroredFrom("store", f"sqlite:///{database}")


def test_a_copy_that_is_older_than_the_database_is_mended_without_a_record(database: Path) -> None:
    """After a crash between the two commits, or after another tool has moved the group's offsets."""
    records = [record(0), record(1)]
    go(FakeConsumer(records), keep, SQLiteStore(database))
    later = FakeConsumer(records)
    assert go(later, keep, SQLiteStore(database)) == 0
    assert later.offsets_committed == {P0: 2}


def test_positions_that_were_moved_are_where_the_next_run_begins(database: Path) -> None:
    records = [record(offset) for offset in range(3)]
    go(FakeConsumer(records), keep, SQLiteStore(database))
    store = SQLiteStore(database)
    assert store.positions("g") == {P0: 3}
    assert store.positions("another") == {}
    assert store.move("g", {P0: 1}) == MirroredFrom("store", f"sqlite:///{database}")
    store.close()
    assert go(FakeConsumer(records), keep, SQLiteStore(database)) == 2
    assert results(database) == ["0", "1", "2", "1", "2"]


def test_a_consumer_that_runs_while_its_positions_are_moved_is_fenced(database: Path) -> None:
    consumer = FakeConsumer([record(0), record(1)])
    session = opened(database, consumer)
    session.starting_offsets([P0])
    SQLiteStore(database).move("g", {P0: 1})
    assert deliver(session, [record(0)]) == 0
    assert results(database) == []
    assert consumer.positions[P0] == 1, "it goes on where it was moved"


def test_a_database_without_positions_is_left_as_it_is(database: Path) -> None:
    store = SQLiteStore(database)
    assert store.positions("g") == {}
    with sqlite3.connect(database) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("results",)]
    connection.close()
    store.close()


def test_a_store_that_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("this is not a database, however long one looks at it" * 50)
    with pytest.raises(ClientError, match="the database of the store: file is not a database"):
        store_at(f"sqlite:///{tmp_path}/text.db").positions("g")


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite:///no/such.db", "there is no file no/such.db; an absolute path has four slashes"),
        ("mysql://host/db", "expected sqlite:///FILE or postgresql://HOST/DATABASE"),
        ("revenue.db", "expected sqlite:///FILE or postgresql://HOST/DATABASE"),
    ],
)
def test_a_url_of_no_store_is_refused(url: str, message: str) -> None:
    with pytest.raises(InvalidClientSetting, match=message):
        store_at(url)


def test_groups_do_not_disturb_each_other(database: Path) -> None:
    for group in ("a", "b"):
        go(FakeConsumer([record(0)], group_id=group), keep, SQLiteStore(database))
    assert results(database) == ["0", "0"]


@pytest.mark.parametrize("wrap", [lambda store: store, Deduplicated])
def test_a_handler_that_raises_leaves_nothing_of_its_batch(database: Path, wrap: Any) -> None:
    consumer = FakeConsumer([record(offset) for offset in range(3)])
    failures = [2]

    def handler(each: Record, transaction: sqlite3.Connection) -> None:
        keep(each, transaction)
        if each.offset in failures:
            failures.clear()
            raise ValueError("no good")

    store = wrap(SQLiteStore(database))
    with pytest.raises(HandlerError, match="topic 't' partition 0 offset 2: the handler raised ValueError: no good"):
        go(consumer, handler, store)
    assert results(database) == []
    assert go(consumer, handler, store) == 3
    assert results(database) == ["0", "1", "2"]


@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK", "BEGIN"])
def test_a_handler_cannot_end_the_transaction(database: Path, statement: str) -> None:
    def handler(each: Record, transaction: sqlite3.Connection) -> None:
        keep(each, transaction)
        transaction.execute(statement)

    with pytest.raises(HandlerError, match="not authorized"):
        go(FakeConsumer([record(0)]), handler, SQLiteStore(database))
    assert results(database) == []


def test_a_handler_cannot_commit_by_the_connections_method(database: Path) -> None:
    def handler(each: Record, transaction: sqlite3.Connection) -> None:
        keep(each, transaction)
        transaction.commit()

    with pytest.raises(HandlerError, match="not authorized"):
        go(FakeConsumer([record(0)]), handler, SQLiteStore(database))
    assert results(database) == []


def test_a_connection_of_the_users_is_used_and_left_open(database: Path) -> None:
    connection = sqlite3.connect(database)
    try:
        assert go(FakeConsumer([record(0)]), keep, SQLiteStore(connection)) == 1
        connection.execute("INSERT INTO results VALUES ('mine')")
        connection.commit()
    finally:
        connection.close()
    assert results(database) == ["0", "mine"]


def opened(database: Path, consumer: FakeConsumer) -> Any:
    return SQLiteStore(database).open(consumer, FakePublisher())  # type: ignore[arg-type]


def deliver(session: Any, records: Sequence[Record]) -> int:
    def call(delivered: Sequence[Record], *transaction: Any) -> None:
        for each in delivered:
            keep(each, transaction[0])

    return int(session.deliver(records, call))


def test_a_consumer_that_was_put_out_is_rolled_back(database: Path) -> None:
    records = [record(0), record(1)]
    zombie, successor = FakeConsumer(records), FakeConsumer(records)
    old = opened(database, zombie)
    assert old.starting_offsets([P0]) == {}
    new = opened(database, successor)
    assert new.starting_offsets([P0]) == {}
    assert deliver(new, records[:1]) == 1
    zombie.lose(P0)
    assert deliver(old, records) == 0
    assert results(database) == ["0"]
    assert deliver(new, records[1:]) == 1
    assert results(database) == ["0", "1"]


def test_a_late_takeover_by_a_zombie_costs_an_attempt_and_no_record(database: Path) -> None:
    records = [record(0), record(1)]
    zombie, owner = FakeConsumer(records), FakeConsumer(records)
    new = opened(database, owner)
    new.starting_offsets([P0])
    old = opened(database, zombie)
    old.starting_offsets([P0])
    # The group says that it is the owner's: it takes the partition back, and reads again where the database is.
    assert deliver(new, records) == 0
    assert owner.positions[P0] == 0
    assert deliver(new, records) == 2
    assert deliver(old, records) == 0
    assert results(database) == ["0", "1"]


def test_the_offset_of_a_partition_without_an_owner_cannot_change(database: Path) -> None:
    consumer = FakeConsumer([record(0)])
    consumer.lose(P0)
    session = opened(database, consumer)
    assert deliver(session, [record(0)]) == 0
    assert results(database) == []


def test_a_record_that_comes_again_is_skipped(database: Path) -> None:
    records = [record(offset) for offset in range(4)]
    assert go(FakeConsumer(records[:3]), keep, Deduplicated(SQLiteStore(database))) == 3
    # The group forgot: everything comes again.
    again = FakeConsumer(records)
    assert go(again, keep, Deduplicated(SQLiteStore(database))) == 1
    assert results(database) == ["0", "1", "2", "3"]
    assert again.offsets_committed == {P0: 4}

"""PostgreSQL: transactions that commit behind others, and a source that reads meanwhile."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.unit.connect.connectors.jdbc.jdbc import execute, query
from tests.unit.connect.connectors.jdbc.source_worker import Worker

pytestmark = pytest.mark.slow


@pytest.fixture
def url(new_database: Callable[[str], str]) -> str:
    url = new_database("postgresql")
    execute(
        url,
        "CREATE TABLE orders (id bigserial PRIMARY KEY, at timestamptz NOT NULL DEFAULT now(), item text)",
        "CREATE TABLE others (id bigserial PRIMARY KEY)",
    )
    return url


@pytest.fixture
def session(url: str) -> Iterator[Callable[[], psycopg.Connection[Any]]]:
    """Connections whose transactions begin with their first statement."""
    opened: list[psycopg.Connection[Any]] = []

    def connect() -> psycopg.Connection[Any]:
        opened.append(psycopg.connect(url))
        return opened[-1]

    yield connect
    for each in opened:
        each.close()


@pytest.fixture
def numbers(url: str) -> Iterator[Worker]:
    worker = Worker(url, mode="incrementing", incrementing_column_name="id", table_whitelist="orders")
    yield worker
    worker.source.stop()


@pytest.fixture
def timestamps(url: str) -> Iterator[Worker]:
    worker = Worker(url, mode="timestamp", timestamp_column_name="at", table_whitelist="orders")
    yield worker
    worker.source.stop()


def ids(rows: list[dict[str, Any]]) -> list[int]:
    return [row["id"] for row in rows]


def test_a_lower_number_that_commits_later(
    url: str, session: Callable[[], psycopg.Connection[Any]], numbers: Worker
) -> None:
    early, late = session(), session()
    early.execute("INSERT INTO orders (item) VALUES ('one')")
    late.execute("INSERT INTO orders (item) VALUES ('two')")
    late.commit()
    assert query(url, "SELECT id FROM orders") == [(2,)]  # what a source without a bound would read, and go on behind
    assert numbers.poll() == []
    assert numbers.poll() == []
    early.commit()
    assert ids(numbers.poll()) == [1, 2]


def test_an_older_transaction_that_takes_the_higher_number(
    url: str, session: Callable[[], psycopg.Connection[Any]], numbers: Worker
) -> None:
    """The visible row's transaction is older than the running one: the age of transactions does not tell."""
    older, younger = session(), session()
    older.execute("INSERT INTO others DEFAULT VALUES")
    younger.execute("INSERT INTO orders (item) VALUES ('one')")
    older.execute("INSERT INTO orders (item) VALUES ('two')")
    older.commit()
    assert query(url, "SELECT id FROM orders") == [(2,)]
    assert numbers.poll() == []
    younger.commit()
    assert ids(numbers.poll()) == [1, 2]


def test_a_number_that_was_drawn_before_the_row_was_written(
    session: Callable[[], psycopg.Connection[Any]], numbers: Worker
) -> None:
    drawing, other = session(), session()
    drawn = drawing.execute("SELECT nextval('orders_id_seq')").fetchone()
    other.execute("INSERT INTO orders (item) VALUES ('two')")
    other.commit()
    assert numbers.poll() == []
    assert drawn is not None
    drawing.execute("INSERT INTO orders (id, item) VALUES (%s, 'one')", drawn)
    drawing.commit()
    assert ids(numbers.poll()) == [1, 2]


def test_a_rollback_does_not_stop_the_source(session: Callable[[], psycopg.Connection[Any]], numbers: Worker) -> None:
    rolled_back, other = session(), session()
    rolled_back.execute("INSERT INTO orders (item) VALUES ('one')")
    other.execute("INSERT INTO orders (item) VALUES ('two')")
    other.commit()
    assert numbers.poll() == []
    rolled_back.rollback()
    assert ids(numbers.poll()) == [2]


def test_transactions_that_do_not_write_the_table_hold_nothing_back(
    session: Callable[[], psycopg.Connection[Any]], numbers: Worker
) -> None:
    reading, writing, other = session(), session(), session()
    reading.execute("SELECT * FROM orders")
    writing.execute("INSERT INTO others DEFAULT VALUES")
    other.execute("INSERT INTO orders (item) VALUES ('one')")
    other.commit()
    assert ids(numbers.poll()) == [1]


def test_a_later_row_does_not_wait_for_ever(session: Callable[[], psycopg.Connection[Any]], numbers: Worker) -> None:
    """Writers overlap all the time: each bound waits for those that ran when it was taken, not for later ones."""
    first = session()
    first.execute("INSERT INTO orders (item) VALUES ('one')")
    second = session()
    second.execute("INSERT INTO orders (item) VALUES ('two')")
    second.commit()
    assert numbers.poll() == []
    third = session()
    third.execute("INSERT INTO orders (item) VALUES ('three')")
    first.commit()
    assert ids(numbers.poll()) == [1, 2]  # although the third still runs
    third.commit()
    assert ids(numbers.until(1)) == [3]


def test_a_timestamp_of_a_transaction_that_began_earlier(
    session: Callable[[], psycopg.Connection[Any]], timestamps: Worker
) -> None:
    early, late = session(), session()
    early.execute("SELECT now()")  # has touched no table, and its now() is fixed
    late.execute("INSERT INTO orders (item) VALUES ('late')")
    late.commit()
    assert timestamps.poll() == []
    early.execute("INSERT INTO orders (item) VALUES ('early')")
    early.commit()
    assert [row["item"] for row in timestamps.until(2)] == ["early", "late"]


def test_many_writers(url: str, numbers: Worker) -> None:
    """Every row that commits is read once, and in the order of numbers."""

    def write(seed: int) -> None:
        chance = random.Random(seed)
        with psycopg.connect(url) as connection:
            for _ in range(25):
                for _ in range(chance.randint(1, 3)):
                    connection.execute("INSERT INTO orders (item) VALUES ('x')")
                    connection.execute("SELECT pg_sleep(%s)", (chance.uniform(0, 0.04),))
                (connection.rollback if chance.random() < 0.2 else connection.commit)()

    writers = [threading.Thread(target=write, args=(seed,)) for seed in range(4)]
    for each in writers:
        each.start()
    seen: list[int] = []
    while any(each.is_alive() for each in writers):
        seen += ids(numbers.poll())
    for each in writers:
        each.join()
    seen += ids(numbers.poll())  # up to the bound that waited for the last transactions
    seen += ids(numbers.poll())  # and the rest
    assert seen == committed(url)


def committed(url: str) -> list[int]:
    return [number for (number,) in query(url, "SELECT id FROM orders ORDER BY id")]

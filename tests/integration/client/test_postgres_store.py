"""Exactly once with PostgreSQL: results and offsets in one transaction of a real server."""

from __future__ import annotations

import importlib.util
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pytest

from penstock import Consumer, Deduplicated, HandlerError, PostgresStore, Producer, Record, TopicPartition
from penstock.client.delivery.loop import StoreSession
from penstock.client.delivery.store_url import store_at
from tests.conftest import optional_part_missing
from tests.integration.client.conftest import NewTopic
from tests.postgres_server import postgres_server
from tests.unit.client.fake_consumer import FakeConsumer, FakePublisher, record

P0 = TopicPartition("t", 0)
Opened = Callable[[FakeConsumer], StoreSession]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if importlib.util.find_spec("psycopg") is None:
        optional_part_missing("psycopg is not installed: pip install 'psycopg[binary]'")
    with postgres_server(tmp_path_factory.mktemp("postgres")) as address:
        yield address


@pytest.fixture
def connection(server: str) -> Iterator[Any]:
    """A table of results, empty."""
    import psycopg

    with psycopg.connect(server, autocommit=True) as connected:
        connected.execute("DROP TABLE IF EXISTS results, penstock_offsets, penstock_applied")
        connected.execute("CREATE TABLE results (value TEXT)")
        yield connected


def results(connection: Any) -> list[str]:
    return sorted(value for (value,) in connection.execute("SELECT value FROM results").fetchall())


def keep(each: Record, transaction: Any) -> None:
    transaction.execute("INSERT INTO results VALUES (%s)", (each.value.decode(),))


def deliver(session: StoreSession, records: Sequence[Record]) -> int:
    def call(delivered: Sequence[Record], *transaction: Any) -> None:
        for each in delivered:
            keep(each, transaction[0])

    return session.deliver(records, call)


@pytest.fixture
def opened(server: str) -> Iterator[Opened]:
    """Sessions of stores that have nothing to do with each other, as those of different processes."""
    with ExitStack() as sessions:

        def open_session(consumer: FakeConsumer) -> StoreSession:
            session = PostgresStore(server).open(consumer, FakePublisher())  # type: ignore[arg-type]
            sessions.callback(session.close)
            return session

        yield open_session


@pytest.mark.parametrize("wrap", [lambda store: store, Deduplicated])
def test_with_a_broker(
    bootstrap_servers: str, new_topic: NewTopic, group: str, server: str, connection: Any, wrap: Any
) -> None:
    topic = new_topic(partitions=2)
    with Producer({"bootstrap.servers": bootstrap_servers}) as producer:
        for number in range(40):
            producer.send(topic, str(number), partition=number % 2)
    config = {
        "bootstrap.servers": bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "max.poll.records": 7,
    }
    failures = [20]

    def handler(each: Record, transaction: Any) -> None:
        keep(each, transaction)
        if int(each.value) in failures:
            failures.clear()
            raise ValueError("no good")

    with Consumer(config) as consumer:
        consumer.subscribe(topic)
        with pytest.raises(HandlerError, match=f"topic '{topic}' partition 0 offset 10: the handler raised"):
            consumer.run(handler, guarantee="exactly_once", store=wrap(PostgresStore(server)))
        consumer.run(handler, guarantee="exactly_once", store=wrap(PostgresStore(connection)), stop_when_idle_s=1)
    assert results(connection) == sorted(str(number) for number in range(40))


def test_a_handler_cannot_commit(opened: Opened, group: str, connection: Any) -> None:
    session = opened(FakeConsumer([record(0)], group_id=group))
    session.starting_offsets([P0])

    def call(_records: Sequence[Record], *transaction: Any) -> None:
        keep(record(0), transaction[0])
        transaction[0].commit()

    with pytest.raises(Exception, match="forbidden"):
        session.deliver([record(0)], call)
    assert results(connection) == []


def test_a_consumer_that_was_put_out_is_rolled_back(opened: Opened, group: str, connection: Any) -> None:
    zombie, successor = FakeConsumer([record(0)], group_id=group), FakeConsumer([record(0)], group_id=group)
    old = opened(zombie)
    old.starting_offsets([P0])
    new = opened(successor)
    new.starting_offsets([P0])
    zombie.lose(P0)
    assert deliver(old, [record(0)]) == 0
    assert deliver(new, [record(0)]) == 1
    assert results(connection) == ["0"]


def test_a_takeover_waits_for_a_commit_under_way(server: str, opened: Opened, group: str, connection: Any) -> None:
    """The predecessor has moved the offset and not committed yet: its successor reads what it commits, not the past."""
    consumer = FakeConsumer([record(0)], group_id=group)
    first = PostgresStore(server)
    session: Any = first.open(consumer, FakePublisher())  # type: ignore[arg-type]
    session.starting_offsets([P0])
    successor = opened(FakeConsumer([record(0)], group_id=group))
    found: list[Any] = []
    with first.transaction() as open_transaction:
        keep(record(0), open_transaction)
        session._advance(open_transaction, {P0: 1})
        takeover = threading.Thread(target=lambda: found.append(successor.starting_offsets([P0])))
        takeover.start()
        time.sleep(0.3)
        assert found == []
    takeover.join(60)
    session.close()
    assert found == [{P0: 1}]
    assert results(connection) == ["0"]


def test_consumers_may_start_at_the_same_moment(server: str, group: str, connection: Any) -> None:
    failures: list[Exception] = []

    def start() -> None:
        try:
            PostgresStore(server).open(FakeConsumer([], group_id=group), FakePublisher()).close()  # type: ignore[arg-type]
        except Exception as failure:
            failures.append(failure)

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_positions_are_found_and_moved_by_hand(server: str, group: str, opened: Opened) -> None:
    consumer = FakeConsumer([record(0), record(1)], group_id=group)
    session: Any = opened(consumer)
    session.starting_offsets([P0])
    store = store_at(url_of(server))
    try:
        assert store.positions(group) == {P0: None}
        mark = store.move(group, {P0: 1})
        assert store.positions(group) == {P0: 1}
        assert store.positions(f"{group}-another") == {}
    finally:
        store.close()
    assert mark.keeper == "store"
    assert mark.place.startswith("postgresql://")
    assert "password" not in mark.place
    assert session.deliver([record(0)], lambda _records, _connection: None) == 0, "its ownership is gone"
    assert consumer.positions[P0] == 1


def url_of(server: str) -> str:
    """The connection string as a URL, as a command line has it."""
    import psycopg

    with psycopg.connect(server) as connection:
        info = connection.info
        credentials = f"{info.user}:{info.password}@" if info.password else f"{info.user}@"
        where = f"?host={info.host}&port={info.port}" if info.host.startswith("/") else ""
        place = "" if where else f"{info.host}:{info.port}"
        return f"postgresql://{credentials}{place}/{info.dbname}{where}"

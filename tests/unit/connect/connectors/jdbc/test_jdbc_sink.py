"""The JDBC sink on every database: what it writes, creates, evolves, deletes and refuses."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable

import pytest

from penstock.connect.connector import Batch, ConnectError, RetriableError, SinkConnector, SourceConnector
from penstock.connect.connectors.jdbc.sink.connector import JdbcSink
from penstock.connect.connectors.kinds import KINDS
from penstock.connect.data.schema import INT32, INT64, STRING, struct
from penstock.core.ids import TopicPartition
from penstock.pipeline import crash_points
from tests.postgres_server import running_postgres
from tests.unit.connect.connectors.jdbc.jdbc import (
    DATABASE_PARAMS,
    batch,
    execute,
    group,
    query,
    sink_config,
    staged,
    write,
)

ORDER = struct({"id": INT64, "item": STRING.optional()})
KEY = struct({"id": INT64})


@pytest.fixture(params=DATABASE_PARAMS)
def url(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> str:
    return new_database(request.param)


def started(url: str, **properties: str) -> JdbcSink:
    connector = JdbcSink("orders-sink", sink_config(url, **properties))
    connector.start()
    return connector


@pytest.mark.parametrize("guarantee", ["at_most_once", "at_least_once", "exactly_once"])
def test_records_become_rows_of_a_table_that_is_created(url: str, guarantee: str) -> None:
    connector = started(url, auto_create="true", guarantee=guarantee)
    try:
        assert write(connector, group(ORDER, [{"id": 1, "item": "tea"}, {"id": 2, "item": None}])) == []
    finally:
        connector.stop()
    assert query(url, "SELECT id, item FROM orders ORDER BY id") == [(1, "tea"), (2, None)]


@pytest.mark.parametrize("rows", [10, 5000], ids=["inline", "staged"])
def test_a_batch_is_recorded_with_its_rows_and_not_written_twice(url: str, rows: int) -> None:
    connector = started(url, auto_create="true", guarantee="exactly_once")
    try:
        result, _ = staged(connector, [group(ORDER, [{"id": each, "item": "x" * 20} for each in range(rows)])])
        assert connector.positions([TopicPartition("orders", 0)]) == {}
        connector.commit([result], batch(0, rows))
        connector.commit([result], batch(0, rows))  # a commit whose answer was lost
        assert connector.positions([]) == {TopicPartition("orders", 0): rows}
    finally:
        connector.stop()
    assert query(url, "SELECT count(*), count(DISTINCT id) FROM orders") == [(rows, rows)]


@pytest.mark.parametrize("rows", [10, 5000], ids=["inline", "staged"])
def test_a_run_that_was_taken_over_commits_nothing(url: str, rows: int) -> None:
    first = started(url, auto_create="true", guarantee="exactly_once")
    records = group(ORDER, [{"id": each, "item": "x" * 20} for each in range(rows)])
    early, _ = staged(first, [records])
    second = started(url, auto_create="true", guarantee="exactly_once")
    try:
        with pytest.raises(ConnectError, match="another run of connector 'orders-sink' has taken over"):
            first.commit([early], batch(0, rows))
        assert query(url, "SELECT count(*) FROM orders") == [(0,)]
        write(second, records)
    finally:
        first.stop()
        second.stop()
    assert query(url, "SELECT count(*) FROM orders") == [(rows,)]


@pytest.mark.parametrize("rows", [3, 3000], ids=["inline", "staged"])
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_the_last_operation_on_a_key_wins_over_groups(url: str, guarantee: str, rows: int) -> None:
    """Records 0, 2, 4 are in one group, 1, 3 and the tombstones in others."""
    wide = struct({"id": INT64, "item": STRING.optional(), "count": INT32.optional()})
    properties = {"insert_mode": "upsert", "pk_mode": "record_key", "delete_enabled": "true"}
    connector = started(url, auto_create="true", auto_evolve="true", guarantee=guarantee, **properties)
    filler = range(1000, 1000 + rows)
    try:
        write(
            connector,
            group(
                ORDER,
                [{"id": 1, "item": "old"}, {"id": 2, "item": "a"}, {"id": 3, "item": "again"}]
                + [{"id": each, "item": "x" * 30} for each in filler],
                key=KEY,
                keys=[{"id": 1}, {"id": 2}, {"id": 3}] + [{"id": each} for each in filler],
                rows=[0, 2, 8, *(each for each in filler)],
            ),
            group(
                wide,
                [{"id": 1, "item": "new", "count": 7}, {"id": 2, "item": "b", "count": 8}, {"id": 3, "item": "c"}],
                key=KEY,
                keys=[{"id": 1}, {"id": 2}, {"id": 3}],
                rows=[3, 1, 6],
            ),
            group(None, [None, None, None], key=KEY, keys=[{"id": 4}, {"id": 3}, {"id": 1000}], rows=[4, 7, 5000]),
            end=6000,
        )
    finally:
        connector.stop()
    found = query(url, "SELECT id, item, count FROM orders WHERE id < 1002 ORDER BY id")
    # 1: the second record; 2: item of the second, count of the first; 3: deleted, and written again without a count.
    assert found == [(1, "new", 7), (2, "a", 8), (3, "again", None), (1001, "x" * 30, None)]


def test_deletes_and_inserts_of_a_key_stay_in_order(url: str) -> None:
    properties = {"pk_mode": "record_key", "delete_enabled": "true", "auto_create": "true"}
    connector = started(url, guarantee="exactly_once", **properties)
    try:
        write(
            connector,
            group(ORDER, [{"id": 1, "item": "a"}, {"id": 1, "item": "b"}], keys=[{"id": 1}] * 2, rows=[0, 2], key=KEY),
            group(None, [None], keys=[{"id": 1}], rows=[1], key=KEY),
        )
    finally:
        connector.stop()
    assert query(url, "SELECT id, item FROM orders") == [(1, "b")]


def test_update_changes_rows_that_exist_only(url: str) -> None:
    execute(
        url,
        "CREATE TABLE orders (id BIGINT PRIMARY KEY, item VARCHAR(20), kept INT DEFAULT 9)",
        "INSERT INTO orders (id, item) VALUES (1, 'old')",
    )
    properties = {"insert_mode": "update", "pk_mode": "record_value", "pk_fields": "id"}
    connector = started(url, guarantee="exactly_once", **properties)
    try:
        write(connector, group(ORDER, [{"id": 1, "item": "new"}, {"id": 2, "item": "none"}]))
    finally:
        connector.stop()
    assert query(url, "SELECT id, item, kept FROM orders") == [(1, "new", 9)]


def test_coordinates_of_kafka_are_a_key(url: str) -> None:
    properties = {"insert_mode": "upsert", "pk_mode": "kafka", "auto_create": "true"}
    connector = started(url, guarantee="at_least_once", **properties)
    records = group(ORDER, [{"id": 1, "item": "a"}, {"id": 1, "item": "b"}])
    try:
        write(connector, records)
        write(connector, records)  # repeated, as at_least_once may
    finally:
        connector.stop()
    found = query(url, "SELECT __connect_topic, __connect_partition, __connect_offset, id, item FROM orders ORDER BY 3")
    assert found == [("orders", 0, 0, 1, "a"), ("orders", 0, 1, 1, "b")]


def test_topics_have_tables_of_their_own(url: str) -> None:
    connector = started(url, auto_create="true", table_name_format="t_${topic}", guarantee="exactly_once")
    try:
        write(
            connector,
            group(ORDER, [{"id": 1, "item": "a"}], topic="orders"),
            group(struct({"n": INT32}), [{"n": 5}], topic="numbers", rows=[1]),
        )
    finally:
        connector.stop()
    assert query(url, "SELECT id FROM t_orders") == [(1,)]
    assert query(url, "SELECT n FROM t_numbers") == [(5,)]


def test_batches_of_many_partitions(url: str) -> None:
    connector = started(url, auto_create="true", guarantee="exactly_once")
    try:
        for end in (5, 9):
            result, _ = staged(connector, [group(ORDER, [{"id": end, "item": None}])])
            ranges = {TopicPartition("orders", number): (end - 4, end) for number in range(1100)}
            connector.commit([result], Batch(ranges))
        assert connector.positions([]) == {TopicPartition("orders", number): 9 for number in range(1100)}
    finally:
        connector.stop()


def test_all_kinds_are_importable() -> None:
    for name, place in KINDS.items():
        module, _, kind = place.partition(":")
        connector = getattr(importlib.import_module(module), kind)
        assert issubclass(connector, SinkConnector if "Sink" in name else SourceConnector)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["postgresql", "mysql"])
def test_a_run_that_hangs_in_its_commit_does_not_keep_the_next_one_waiting(
    new_database: Callable[[str], str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    url = new_database(name)
    first = started(url, auto_create="true", guarantee="exactly_once")
    records = group(ORDER, [{"id": 1, "item": "a"}])
    result, _ = staged(first, [records])
    hangs, goes_on = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    def reached(step: str) -> None:
        if step == "connect.jdbc.before_commit" and not hangs.is_set():
            hangs.set()
            goes_on.wait()

    def commit() -> None:
        try:
            first.commit([result], batch(0, 1))
        except ConnectError as failure:
            failures.append(failure)

    monkeypatch.setattr(crash_points, "reached", reached)
    hanging = threading.Thread(target=commit)
    hanging.start()
    hangs.wait()
    second = started(url, auto_create="true", guarantee="exactly_once")  # holds no lock back
    assert second.positions([]) == {}
    write(second, records)
    goes_on.set()
    hanging.join()
    first.stop()
    second.stop()
    assert "another run of connector 'orders-sink' has taken over" in str(failures[0])
    assert query(url, "SELECT count(*) FROM orders") == [(1,)]


@pytest.mark.slow
def test_staged_rows_that_a_crash_of_the_server_has_emptied(tmp_path_factory: pytest.TempPathFactory) -> None:
    with running_postgres(tmp_path_factory.mktemp("crashing")) as server:
        connector = started(server.url, auto_create="true", guarantee="exactly_once")
        records = group(ORDER, [{"id": each, "item": "x" * 30} for each in range(5000)])
        result, _ = staged(connector, [records])
        server.kill()
        server.start()
        with pytest.raises(RetriableError, match="0 of 5000 staged rows are there"):
            connector.commit([result], batch(0, 5000))
        write(connector, records)  # the batch runs again
        connector.stop()
        assert query(server.url, "SELECT count(*) FROM orders") == [(5000,)]

"""Rows that the database refuses: with errors.tolerance=all they are reported, and all others are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from penstock.connect.connector import Batch, BatchRefused, ConnectError
from penstock.connect.connectors.jdbc.sink.connector import JdbcSink
from penstock.connect.connectors.jdbc.sink.refusals import refused_rows
from penstock.connect.data import schema as s
from penstock.connect.data.records import Failure
from penstock.core.ids import TopicPartition
from penstock.pipeline.sinks.table.errors import RowRefused
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

ORDER = s.struct({"id": s.INT64, "amount": s.INT64.optional(), "item": s.STRING.optional()})
PARTITION = TopicPartition("orders", 0)
# Tests look into SQLite's file after the sink has closed it: Python's SQLite and the sink's are two libraries, and in
# one process neither sees the locks of the other.
TABLE = (
    "CREATE TABLE orders (id BIGINT NOT NULL PRIMARY KEY, amount BIGINT NOT NULL CHECK (amount > 0), item VARCHAR(999))"
)
BOTH = pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])


@pytest.fixture(params=DATABASE_PARAMS)
def url(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> str:
    made = new_database(request.param)
    execute(made, TABLE)
    return made


def started(url: str, guarantee: str, tolerance: str = "all", **properties: str) -> JdbcSink:
    config = sink_config(url, guarantee=guarantee, errors_tolerance=tolerance, **properties)
    connector = JdbcSink("orders-sink", config)
    connector.start()
    return connector


def rows_of(failures: Sequence[Failure]) -> list[int]:
    return sorted(row for failure in failures for row in failure.rows)


def orders(amounts: Sequence[int | None], first_id: int = 0, item: str = "x") -> list[dict[str, Any]]:
    return [{"id": first_id + number, "amount": amount, "item": item} for number, amount in enumerate(amounts)]


def written(url: str) -> list[tuple[Any, ...]]:
    return query(url, "SELECT id, amount FROM orders ORDER BY id")


def test_the_search_finds_every_row_and_keeps_their_order() -> None:
    bad = {0, 3, 4, 9}
    taken: list[int] = []

    def take(start: int, end: int) -> None:
        if bad & set(range(start, end)):
            raise RowRefused(f"{start}-{end}")
        taken.extend(range(start, end))

    assert [row for row, _refusal in refused_rows(10, take)] == sorted(bad)
    assert taken == [1, 2, 5, 6, 7, 8]
    assert list(refused_rows(0, take)) == []


@BOTH
@pytest.mark.parametrize("item", ["x", "x" * 900], ids=["inline", "staged"])
def test_good_rows_are_written_and_bad_ones_reported(url: str, guarantee: str, item: str) -> None:
    connector = started(url, guarantee)
    amounts: list[int | None] = [1] * 150
    amounts[7], amounts[90], amounts[149] = None, -5, 0
    failures = write(connector, group(ORDER, orders(amounts, item=item)))
    assert rows_of(failures) == [7, 90, 149]
    assert all("constraint" in failure.message.lower() or "null" in failure.message.lower() for failure in failures)
    more = write(connector, group(ORDER, orders([1, 2], first_id=200, item=item), first_offset=150), start=150)
    assert more == []
    if guarantee == "exactly_once":
        assert connector.positions([PARTITION]) == {PARTITION: 152}
    connector.stop()
    kept = [each for each in range(150) if each not in (7, 90, 149)]
    assert [number for number, _amount in written(url)] == [*kept, 200, 201]


@BOTH
def test_the_second_of_two_rows_with_one_key_is_refused(url: str, guarantee: str) -> None:
    connector = started(url, guarantee)
    values = [*orders([1, 2]), {"id": 0, "amount": 3, "item": "again"}]
    assert rows_of(write(connector, group(ORDER, values))) == [2]
    connector.stop()
    assert written(url) == [(0, 1), (1, 2)]


@BOTH
def test_an_update_that_is_refused_leaves_the_one_before_it(url: str, guarantee: str) -> None:
    """Only the last record of a key is written as a rule: here that is not the last one that the database takes."""
    connector = started(url, guarantee, insert_mode="upsert", pk_mode="record_value", pk_fields="id")
    values = [{"id": 1, "amount": amount, "item": None} for amount in (4, 5, -1, 6, -2)]
    values += [{"id": 2, "amount": 9, "item": None}]
    assert rows_of(write(connector, group(ORDER, values))) == [2, 4]
    connector.stop()
    assert written(url) == [(1, 6), (2, 9)]


@BOTH
def test_records_keep_their_order_over_deletions(url: str, guarantee: str) -> None:
    connector = started(
        url, guarantee, insert_mode="upsert", pk_mode="record_key", pk_fields="id", delete_enabled="true"
    )
    value = s.struct({"amount": s.INT64.optional(), "item": s.STRING.optional()})
    key = s.struct({"id": s.INT64})
    values = [{"amount": 1, "item": None}, None, {"amount": -1, "item": None}, {"amount": 2, "item": None}, None]
    keys = [{"id": 1}, {"id": 1}, {"id": 1}, {"id": 2}, {"id": 3}]
    assert rows_of(write(connector, group(value.optional(), values, key=key, keys=keys))) == [2]
    connector.stop()
    assert written(url) == [(2, 2)]


def test_nothing_is_committed_if_the_dead_letters_cannot_be_written(url: str) -> None:
    connector = started(url, "exactly_once")
    records = [group(ORDER, orders([1, -1, 2]))]
    result, _failures = staged(connector, records)
    with pytest.raises(BatchRefused):
        connector.commit([result], batch(0, 3))
    result, _failures = staged(connector, records)

    def away(_task: int, _failures: Sequence[Failure]) -> None:
        raise ConnectionError("no broker")

    with pytest.raises(ConnectionError):
        connector.commit([result], Batch({PARTITION: (0, 3)}, away))
    assert connector.positions([PARTITION]) == {}
    connector.stop()
    assert written(url) == []


@BOTH
def test_without_tolerance_a_refused_row_stops_the_connector(url: str, guarantee: str) -> None:
    connector = started(url, guarantee, tolerance="none")
    with pytest.raises(ConnectError, match=r"errors\.tolerance"):
        write(connector, group(ORDER, orders([1, -1, 2])))
    connector.stop()
    assert written(url) == []


@BOTH
def test_a_table_that_is_gone_refuses_no_single_rows(url: str, guarantee: str) -> None:
    connector = started(url, guarantee)
    writer = connector.open_writer(0, connector.settings.guarantee)
    writer.refuse = lambda failures: pytest.fail(f"refused: {failures}")
    writer.put(group(ORDER, orders([1, 2])))
    execute(url, "DROP TABLE orders")
    with pytest.raises(ConnectError, match="nothing is lost"):
        connector.commit([writer.finish()], batch(0, 2))
    connector.stop()


@BOTH
@pytest.mark.slow
def test_rows_that_cannot_even_be_staged(new_database: Callable[[str], str], guarantee: str) -> None:
    url = new_database("postgresql")
    execute(url, TABLE)
    connector = started(url, guarantee)
    values = [*orders([1, 2, 3, -4]), {"id": 9, "amount": 9, "item": "a\0b"}]
    values = [{**each, "item": each["item"] + "y" * 900} for each in values]
    assert rows_of(write(connector, group(ORDER, values))) == [3, 4]
    connector.stop()
    assert written(url) == [(0, 1), (1, 2), (2, 3)]

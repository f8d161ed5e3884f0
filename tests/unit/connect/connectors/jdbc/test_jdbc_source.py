"""The JDBC source on every database: modes, positions, schemas, tables, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from penstock.connect.config.definition import ConfigException
from penstock.connect.connector import ConnectError, RetriableError, SourceOffset, partition_key
from penstock.connect.connectors.jdbc.source.connector import JdbcSource
from penstock.connect.data import schema as s
from tests.unit.connect.connectors.jdbc.jdbc import DATABASE_PARAMS, connection, execute, query
from tests.unit.connect.connectors.jdbc.source_worker import Worker


@pytest.fixture(params=DATABASE_PARAMS)
def url(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> str:
    return new_database(request.param)


@pytest.fixture
def sqlite(new_database: Callable[[str], str]) -> str:
    return new_database("sqlite")


@pytest.fixture
def worker() -> Any:
    made: list[Worker] = []

    def create(url: str, offsets: dict[str, SourceOffset] | None = None, **properties: str) -> Worker:
        made.append(Worker(url, offsets, **properties))
        return made[-1]

    yield create
    for each in made:
        each.source.stop()


def table_of(url: str, name: str = "orders") -> str:
    if url.startswith("sqlite"):
        return name
    database = url.rpartition("/")[2]
    return f"{database}.public.{name}" if url.startswith("postgresql") else f"{database}.{name}"


def create_orders(url: str, *items: str) -> None:
    execute(url, "CREATE TABLE orders (id BIGINT NOT NULL PRIMARY KEY, item VARCHAR(20))")
    insert(url, *((number, item) for number, item in enumerate(items, 1)))


def insert(url: str, *rows: tuple[int, str]) -> None:
    execute(url, *(f"INSERT INTO orders (id, item) VALUES ({number}, '{item}')" for number, item in rows))


def test_incrementing(url: str, worker: Callable[..., Worker]) -> None:
    create_orders(url, "a", "b")
    properties = {"mode": "incrementing", "incrementing_column_name": "id"}
    first = worker(url, **properties)
    assert first.until(2) == [{"id": 1, "item": "a"}, {"id": 2, "item": "b"}]
    assert first.poll() == []
    assert first.offsets == {partition_key({"protocol": "1", "table": table_of(url)}): {"incrementing": 2}}
    assert first.topics == {"p-orders"}
    expected = s.struct({"id": s.INT64, "item": s.STRING.optional()}, name="orders")
    assert first.schemas[0] == expected
    insert(url, (3, "c"))
    assert worker(url, first.offsets, **properties).until(1) == [{"id": 3, "item": "c"}]


def test_slices_and_batches_are_bounded(
    url: str, worker: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JdbcSource, "slice_rows_max", 4)
    create_orders(url, *"abcdefghij")
    reader = worker(url, mode="incrementing", incrementing_column_name="id", batch_max_rows="3")
    sizes = []
    for _ in range(3):
        (slice_,) = reader.source.plan(reader.offsets)
        parts = list(reader.source.read(slice_))
        sizes.append([len(part.group) for part in parts])
        reader.offsets[partition_key(slice_.partition)] = parts[-1].offset
    assert sizes == [[3, 1], [3, 1], [2]]


@pytest.mark.parametrize("mode", ["timestamp", "timestamp+incrementing"])
def test_timestamps(url: str, worker: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """Rows of one moment are never torn apart by the bound of a slice."""
    monkeypatch.setattr(JdbcSource, "slice_rows_max", 2)
    kind = {"postgresql": "timestamp(6)", "mysql": "datetime(6)", "sqlite": "TIMESTAMP"}[url.partition(":")[0]]
    execute(url, f"CREATE TABLE orders (id BIGINT NOT NULL PRIMARY KEY, at {kind} NOT NULL)")
    moments = ["2024-01-01 10:00:00.001", "2024-01-01 10:00:00.002", "2024-01-01 10:00:00.002"]
    moments += ["2024-01-01 10:00:00.002", "2024-01-01 10:00:00.003"]
    execute(url, *(f"INSERT INTO orders VALUES ({number}, '{at}')" for number, at in enumerate(moments, 1)))
    properties = {"mode": mode, "timestamp_column_name": "at", "incrementing_column_name": "id"}
    reader = worker(url, **properties)
    assert sorted(row["id"] for row in reader.until(5)) == [1, 2, 3, 4, 5]
    assert reader.poll() == []
    (offset,) = reader.offsets.values()
    assert (offset["timestamp"], offset["timestamp_nanos"]) == (1704103200003, 3_000_000)
    if mode == "timestamp":
        execute(url, "UPDATE orders SET at = '2024-01-01 10:00:01' WHERE id = 2")
    else:
        execute(url, "INSERT INTO orders VALUES (6, '2024-01-01 10:00:00.003')")
    (row,) = reader.until(1)
    assert row["id"] == (2 if mode == "timestamp" else 6)
    future = "INSERT INTO orders VALUES (7, '2999-01-01 10:00:00')"
    execute(url, future)
    assert reader.poll() == []  # not before its time
    delayed = worker(url, **properties, timestamp_delay_interval_ms=str(10**12 * 2))
    assert delayed.poll() == []


def test_timestamps_of_another_time_zone(url: str, worker: Callable[..., Worker]) -> None:
    if url.startswith("sqlite"):
        return  # milliseconds have no zone
    kind = "timestamp" if url.startswith("postgresql") else "datetime(6)"
    execute(
        url,
        f"CREATE TABLE orders (id BIGINT NOT NULL PRIMARY KEY, at {kind} NOT NULL)",
        "INSERT INTO orders VALUES (1, '2024-01-01 09:00:00')",
    )
    reader = worker(url, mode="timestamp", timestamp_column_name="at", db_timezone="Asia/Tokyo")
    (row,) = reader.until(1)
    assert row["at"] == 1704067200000  # midnight in UTC
    assert next(iter(reader.offsets.values()))["timestamp"] == 1704067200000
    assert reader.poll() == []


def test_timestamp_initial(url: str, worker: Callable[..., Worker]) -> None:
    kind = {"postgresql": "timestamp", "mysql": "datetime(3)", "sqlite": "TIMESTAMP"}[url.partition(":")[0]]
    execute(
        url,
        f"CREATE TABLE orders (id BIGINT NOT NULL, at {kind} NOT NULL)",
        "INSERT INTO orders VALUES (1, '2024-01-01 00:00:00'), (2, '2024-01-03 00:00:00')",
    )
    properties = {"mode": "timestamp", "timestamp_column_name": "at"}
    later = worker(url, **properties, timestamp_initial=str(1704153600000))
    assert [row["id"] for row in later.until(1)] == [2]
    assert worker(url, **properties, timestamp_initial="-1").poll() == []


def test_bulk_reads_all_rows_at_every_interval(url: str, worker: Callable[..., Worker]) -> None:
    create_orders(url, "a", "b")
    reader = worker(url, mode="bulk", poll_interval_ms="3600000")
    assert sorted(row["id"] for row in reader.poll()) == [1, 2]
    assert reader.poll() == []  # not before the interval is over
    assert sorted(row["id"] for row in worker(url, mode="bulk").poll()) == [1, 2]


def test_queries(url: str, worker: Callable[..., Worker]) -> None:
    create_orders(url, "a", "b", "c")
    statement = "SELECT id, item, 1 AS one FROM orders WHERE item <> 'b'"
    reader = worker(url, mode="incrementing", incrementing_column_name="id", query=statement)
    assert reader.until(2) == [{"id": 1, "item": "a", "one": 1}, {"id": 3, "item": "c", "one": 1}]
    assert reader.poll() == []
    assert reader.offsets == {partition_key({"query": "query"}): {"incrementing": 3}}
    assert reader.topics == {"p-"}
    assert reader.schemas[0].name is None
    limited = worker(url, mode="bulk", query="SELECT id FROM orders", query_suffix="ORDER BY id DESC LIMIT 1")
    assert limited.poll() == [{"id": 3}]


def test_lists_of_tables(url: str, worker: Callable[..., Worker]) -> None:
    for name in ("one", "two", "three"):
        execute(url, f"CREATE TABLE {name} (id BIGINT NOT NULL)", f"INSERT INTO {name} VALUES (1)")
    execute(url, "CREATE VIEW seen AS SELECT id FROM one")
    everything = worker(url, mode="bulk")
    everything.poll()
    assert everything.topics == {"p-one", "p-two", "p-three"}
    some = worker(url, mode="bulk", table_whitelist=f"one, {table_of(url, 'two')}")
    some.poll()
    assert some.topics == {"p-one", "p-two"}
    others = worker(url, mode="bulk", table_blacklist="one", table_types="TABLE,VIEW")
    others.poll()
    assert others.topics == {"p-two", "p-three", "p-seen"}


def test_offsets_of_older_connectors_are_read_on(url: str, worker: Callable[..., Worker]) -> None:
    create_orders(url, "a", "b")
    older: Mapping[str, SourceOffset] = {partition_key({"table": "orders"}): {"incrementing": 1}}
    reader = worker(url, dict(older), mode="incrementing", incrementing_column_name="id")
    assert [row["id"] for row in reader.until(1)] == [2]


TYPES = {
    "postgresql": (
        "i2 smallint NOT NULL, i4 integer, i8 bigint, f4 real, f8 double precision, n numeric(10,2),"
        " whole numeric(6,0), free numeric, b boolean, t text, c char(3), u uuid, j jsonb, raw bytea, d date,"
        " ti time, ts timestamp(6), tz timestamptz, skipped int[]",
        "1, 2, 3, 0.5, 1.5, -12.34, 123456, 0.125, true, 'x', 'abc', '6f1c1c1e-9f1a-4f43-9f5e-0d6ab1d5b001',"
        " '{\"a\": 1}', '\\x00ff', '2024-01-02', '01:02:03.004', '2024-01-02 03:04:05.678',"
        " '2024-01-02 03:04:05.678+00', '{1}'",
    ),
    "mysql": (
        "i2 smallint NOT NULL, i4 int, i8 bigint, f4 float, f8 double, n decimal(10,2), whole decimal(6,0),"
        " u4 int unsigned, b tinyint(1), t text, c char(3), j json, raw varbinary(9), d date, ti time(3),"
        " ts datetime(6)",
        "1, 2, 3, 0.5, 1.5, -12.34, 123456, 4000000000, true, 'x', 'abc', '{\"a\": 1}', x'00ff', '2024-01-02',"
        " '01:02:03.004', '2024-01-02 03:04:05.678'",
    ),
    "sqlite": (
        "i2 SMALLINT NOT NULL, i8 BIGINT, f8 DOUBLE, n DECIMAL(10,2), whole NUMERIC(6,0), b BOOLEAN, t TEXT, c CHAR(3),"
        " raw BLOB, d DATE, ts TIMESTAMP",
        "1, 3, 1.5, -12.34, 123456, 1, 'x', 'abc', x'00ff', '2024-01-02', 1704164645678",
    ),
}
VALUES = {
    "i2": (s.INT16, 1),
    "i4": (s.INT32, 2),
    "i8": (s.INT64, 3),
    "f4": (s.FLOAT32, 0.5),
    "f8": (s.FLOAT64, 1.5),
    "n": (s.decimal(2), (-1234).to_bytes(2, "big", signed=True)),
    "whole": (s.decimal(0), (123456).to_bytes(3, "big")),
    "t": (s.STRING, "x"),
    "c": (s.STRING, "abc"),
    "u": (s.STRING, "6f1c1c1e-9f1a-4f43-9f5e-0d6ab1d5b001"),
    "u4": (s.INT64, 4_000_000_000),
    "j": (s.STRING, '{"a": 1}'),
    "raw": (s.BYTES, b"\x00\xff"),
    "d": (s.date(), 19724),
    "ti": (s.time(), 3_723_004),
    "ts": (s.timestamp(), 1704164645678),
    "tz": (s.timestamp(), 1704164645678),
}


def test_types(url: str, worker: Callable[..., Worker]) -> None:
    kind = url.partition(":")[0]
    columns, values = TYPES[kind]
    execute(url, f"CREATE TABLE orders ({columns})", f"INSERT INTO orders VALUES ({values})")
    execute(url, "INSERT INTO orders (i2) VALUES (7)")
    reader = worker(url, mode="bulk")
    rows = sorted(reader.poll(), key=lambda row: row["i2"])
    schema = reader.schemas[0]
    boolean = s.INT8 if kind == "mysql" else s.BOOLEAN
    expected = {**VALUES, "b": (boolean, 1)}
    for field in schema.fields:
        if field.name == "free":
            assert Decimal(int.from_bytes(rows[0]["free"], "big")).scaleb(-127) == Decimal("0.125")
            continue
        wanted, value = expected[field.name]
        assert field.schema == replace(wanted, is_optional=field.name != "i2"), field.name
        assert rows[0][field.name] == value, field.name
        assert rows[1][field.name] == (7 if field.name == "i2" else None)
    assert "skipped" not in rows[0]
    mapped = worker(url, mode="bulk", numeric_mapping="best_fit")
    found = mapped.poll()[0]
    assert (found["n"], found["whole"]) == (-12.34, 123456)
    assert worker(url, mode="bulk", query="SELECT i2, n, ts, t FROM orders").poll()


def test_refusals(url: str) -> None:
    create_orders(url, "a")
    base = {**connection(url), "topic.prefix": "p-", "mode": "incrementing", "incrementing.column.name": "id"}
    assert JdbcSource.check(base) == ()
    (missing,) = JdbcSource.check({**base, "table.whitelist": "nothing"})
    assert "table nothing of table.whitelist does not exist" in str(missing)
    (column,) = JdbcSource.check({**base, "incrementing.column.name": "number"})
    assert "has no column number; correct incrementing.column.name" in str(column)
    (nullable,) = JdbcSource.check({**base, "incrementing.column.name": "item"})
    assert "because this column is nullable; make it NOT NULL, or set validate.non.null=false" in str(nullable)
    (broken,) = JdbcSource.check({**base, "query": "SELECT nothing FROM orders"})
    assert broken.name == "query"


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"mode": ""}, "Query mode must be specified"),
        ({"mode": "incrementing"}, "Incrementing column name must be specified for mode incrementing"),
        ({"mode": "timestamp"}, "Timestamp column name must be specified for mode timestamp"),
        ({"table.whitelist": "a", "table.blacklist": "b"}, "exclusive"),
        ({"query": "SELECT 1", "table.whitelist": "a"}, "query may not be combined with whole-table copying settings"),
        ({"numeric.mapping": "guess"}, "Invalid value guess for configuration numeric.mapping"),
    ],
)
def test_configurations(properties: dict[str, str], text: str) -> None:
    config = {"connection.url": "jdbc:sqlite:/tmp/x.db", "topic.prefix": "p", "mode": "bulk", **properties}
    (mistake,) = JdbcSource.check(config)
    assert text in str(mistake)
    with pytest.raises(ConfigException):
        JdbcSource("x", config)


def test_a_table_that_is_dropped_while_it_is_read(url: str, worker: Callable[..., Worker]) -> None:
    create_orders(url, "a")
    reader = worker(url, mode="incrementing", incrementing_column_name="id", table_poll_interval_ms="3600000")
    (slice_,) = reader.source.plan({})
    execute(url, "DROP TABLE orders")
    with pytest.raises(ConnectError, match="nothing is lost"):
        list(reader.source.read(slice_))
    reader.source.settings = replace(reader.source.settings, poll_interval_ms=0)
    with pytest.raises(ConnectError, match="does not exist any more"):
        reader.source.plan({})


def test_a_database_that_is_away() -> None:
    config = {"connection.url": "jdbc:postgresql://127.0.0.1:1/x", "topic.prefix": "p", "mode": "bulk"}
    with pytest.raises(RetriableError):
        JdbcSource("x", config).start()
    (mistake,) = JdbcSource.check(config)
    assert mistake.name == "connection.url"


def test_offsets_that_a_person_writes() -> None:
    good = {"protocol": "1", "table": "db.public.orders"}
    JdbcSource.check_offsets({}, [(good, {"incrementing": 5}), ({"query": "query"}, None)])
    for partition, offset in (({"file": "x"}, {"incrementing": 5}), (good, {"incrementing": "5"}), (good, {"line": 5})):
        with pytest.raises(ConnectError, match="is not one of a JDBC source"):
            JdbcSource.check_offsets({}, [(partition, offset)])


def test_a_file_that_does_not_exist_is_not_created(tmp_path: Any) -> None:
    path = tmp_path / "none.db"
    (mistake,) = JdbcSource.check({"connection.url": f"jdbc:sqlite:{path}", "topic.prefix": "p", "mode": "bulk"})
    assert "there is no such file" in str(mistake)
    assert not path.exists()


def test_our_own_tables_are_not_copied(sqlite: str, worker: Callable[..., Worker]) -> None:
    create_orders(sqlite, "a")
    execute(sqlite, "CREATE TABLE penstock_connectors (connector TEXT)")
    reader = worker(sqlite, mode="bulk")
    reader.poll()
    assert reader.topics == {"p-orders"}
    assert query(sqlite, "SELECT count(*) FROM orders") == [(1,)]

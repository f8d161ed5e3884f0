"""Every type of Connect's schemas in a table of every database, in tables that are created and in those that exist."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from penstock.connect.connectors.jdbc.sink.connector import JdbcSink
from penstock.connect.connectors.jdbc.sink.debezium import DebeziumJdbcSink
from penstock.connect.data import schema as s
from tests.unit.connect.connectors.jdbc.jdbc import DATABASE_PARAMS, execute, group, query, sink_config, write

EVERYTHING = s.struct(
    {
        "i8": s.INT8,
        "i16": s.INT16,
        "i32": s.INT32,
        "i64": s.INT64,
        "f32": s.FLOAT32,
        "f64": s.FLOAT64,
        "yes": s.BOOLEAN,
        "txt": s.STRING.optional(),
        "raw": s.BYTES.optional(),
        "amount": s.decimal(2).optional(),
        "day": s.date(),
        "tim": s.time(),
        "ts": s.timestamp(),
        "dflt": replace(s.INT32.optional(), default=42),
    }
)
ROW = {
    "i8": -128,
    "i16": 300,
    "i32": 70_000,
    "i64": 2**62,
    "f32": 0.5,
    "f64": 1e100,
    "yes": True,
    "txt": "O'Brien \\ ü",
    "raw": b"\x00\xff",
    "amount": (-12345).to_bytes(3, "big", signed=True),
    "day": 19_000,
    "tim": 3_723_004,
    "ts": 1_700_000_000_123,
    "dflt": None,
}
NAMES = ", ".join(field.name for field in EVERYTHING.fields)


@pytest.fixture(params=DATABASE_PARAMS)
def url(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> str:
    return new_database(request.param)


def written(url: str, *values: dict[str, Any], **properties: str) -> None:
    connector = JdbcSink("types", sink_config(url, **properties))
    connector.start()
    try:
        assert write(connector, group(EVERYTHING, values)) == []
    finally:
        connector.stop()


def read(url: str) -> dict[str, Any]:
    select = NAMES
    if url.startswith("postgresql"):
        select = NAMES.replace("amount", "amount::text")
    (found,) = query(url, f"SELECT {select} FROM orders")
    return dict(zip(NAMES.split(", "), found, strict=True))


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_all_types(url: str, guarantee: str) -> None:
    written(url, ROW, auto_create="true", guarantee=guarantee)
    found = read(url)
    same = {name: found[name] for name in ("i8", "i16", "i32", "i64", "f32", "f64", "txt", "raw")}
    assert same == {name: ROW[name] for name in same}
    assert bool(found["yes"]) is True
    assert Decimal(str(found["amount"])) == Decimal("-123.45")
    assert found["dflt"] == 42
    if url.startswith("sqlite"):  # milliseconds, as its JDBC driver writes
        assert (found["day"], found["tim"], found["ts"]) == (19_000 * 86_400_000, 3_723_004, 1_700_000_000_123)
        return
    moment = datetime(1970, 1, 1) + timedelta(milliseconds=1_700_000_000_123)
    assert found["day"] == date(1970, 1, 1) + timedelta(days=19_000)
    seconds = found["tim"].total_seconds() if isinstance(found["tim"], timedelta) else _seconds(found["tim"])
    assert seconds == pytest.approx(3723.004)
    assert found["ts"] == moment


def _seconds(value: Any) -> float:
    return float(value.hour * 3600 + value.minute * 60 + value.second + value.microsecond / 1e6)


def test_nulls_of_optional_fields(url: str) -> None:
    written(url, {**ROW, "txt": None, "raw": None, "amount": None}, auto_create="true", guarantee="exactly_once")
    found = read(url)
    assert (found["txt"], found["raw"], found["amount"]) == (None, None, None)


def test_timestamps_are_in_the_time_zone_of_the_database(url: str) -> None:
    if url.startswith("sqlite"):
        return  # milliseconds have no zone
    written(url, ROW, auto_create="true", db_timezone="Asia/Tokyo")
    moment = datetime(1970, 1, 1) + timedelta(milliseconds=1_700_000_000_123, hours=9)
    assert read(url)["ts"] == moment


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_postgres_converts_into_the_types_of_an_existing_table(
    new_database: Callable[[str], str], guarantee: str
) -> None:
    url = new_database("postgresql")
    execute(url, "CREATE TABLE orders (id uuid PRIMARY KEY, doc jsonb, n numeric(12,3), at timestamptz, tags text[])")
    schema = s.struct(
        {
            "id": s.STRING,
            "doc": s.STRING,
            "n": s.INT32,
            "at": s.timestamp(),
            "tags": s.Schema(s.Type.ARRAY, value_schema=s.STRING, is_optional=True),
        }
    )
    properties = {"insert_mode": "upsert", "pk_mode": "record_value", "pk_fields": "id", "db_timezone": "Asia/Tokyo"}
    connector = JdbcSink("types", sink_config(url, guarantee=guarantee, **properties))
    connector.start()
    value = {"id": "6f1c1c1e-9f1a-4f43-9f5e-0d6ab1d5b001", "doc": '{"a": 1}', "n": 7, "at": 1000, "tags": ["x", "y"]}
    other = {**value, "id": "6f1c1c1e-9f1a-4f43-9f5e-0d6ab1d5b002", "tags": None}
    try:
        write(connector, group(schema, [value, other]))
    finally:
        connector.stop()
    statement = "SELECT doc->>'a', n::text, extract(epoch FROM at)::int, array_to_string(tags, '+') FROM orders"
    assert query(url, f"{statement} ORDER BY id") == [("1", "7.000", 1, "x+y"), ("1", "7.000", 1, None)]


def test_decimals_of_many_digits(url: str) -> None:
    unscaled = -(10**50) - 7
    schema = s.struct({"amount": s.decimal(2)})
    connector = JdbcSink("types", sink_config(url, auto_create="true"))
    connector.start()
    try:
        values = [{"amount": each.to_bytes(22, "big", signed=True)} for each in (unscaled, 5)]
        failures = write(connector, group(schema, values))
        assert failures == []
        beyond = write(connector, group(schema, [{"amount": (10**90).to_bytes(40, "big")}, {"amount": b"\x06"}]))
    finally:
        connector.stop()
    assert [(failure.rows, failure.message) for failure in beyond] == [
        ([0], "field amount cannot be written: a decimal has more than 76 digits")
    ]
    if url.startswith("sqlite"):
        assert query(url, "SELECT amount FROM orders WHERE amount > 0 ORDER BY 1") == [(0.05,), (0.06,)]
        return
    kind = "text" if url.startswith("postgresql") else "char(80)"
    found = query(url, f"SELECT CAST(amount AS {kind}) FROM orders")
    assert sorted(Decimal(each) for (each,) in found) == [Decimal(f"-1{'0' * 48}.07"), Decimal("0.05"), Decimal("0.06")]


ROW_STATE = s.struct(
    {
        "id": s.INT64,
        "at": replace(s.INT64, name="io.debezium.time.MicroTimestamp"),
        "day": replace(s.INT32, name="io.debezium.time.Date"),
        "zoned": replace(s.STRING, name="io.debezium.time.ZonedTimestamp"),
        "doc": replace(s.STRING, name="io.debezium.data.Json"),
    }
)
ENVELOPE = s.struct({"before": ROW_STATE.optional(), "after": ROW_STATE.optional(), "op": s.STRING}, name="o.Envelope")


def test_envelopes_and_types_of_debezium(url: str) -> None:
    connection = {name: value for name, value in sink_config(url).items() if name.startswith("connection.")}
    if "connection.user" in connection:
        connection["connection.username"] = connection.pop("connection.user")
    properties = {"insert.mode": "upsert", "primary.key.mode": "record_key", "delete.enabled": "true"}
    config = {**connection, **properties, "schema.evolution": "basic", "quote.identifiers": "true"}
    connector = DebeziumJdbcSink("types", config)
    connector.start()
    key = s.struct({"id": s.INT64})

    def state(number: int, micros: int = 0) -> dict[str, Any]:
        zoned = "2024-01-02T03:04:05.678Z"
        return {"id": number, "at": 1_700_000_000_000_000 + micros, "day": 1, "zoned": zoned, "doc": '{"a": 1}'}

    values = [
        {"before": None, "after": state(1), "op": "c"},
        {"before": None, "after": state(2), "op": "c"},
        {"before": state(1), "after": state(1, 123456), "op": "u"},
        {"before": state(2), "after": None, "op": "d"},
        {"before": None, "after": None, "op": "t"},
    ]
    keys = [{"id": 1}, {"id": 2}, {"id": 1}, {"id": 2}, {"id": 9}]
    try:
        failures = write(connector, group(ENVELOPE, values, key=key, keys=keys))
        tombstone = group(None, [None], key=key, keys=[{"id": 5}])
        assert write(connector, tombstone) == []
    finally:
        connector.stop()
    assert [(failure.rows, "op=t" in failure.message) for failure in failures] == [([4], True)]
    ((number, at, day),) = query(url, "SELECT id, at, day FROM orders")
    if url.startswith("sqlite"):
        assert (number, at, day) == (1, 1_700_000_000_123, 86_400_000)
    else:
        moment = datetime(1970, 1, 1) + timedelta(microseconds=1_700_000_000_123_456)
        assert (number, at, day) == (1, moment, date(1970, 1, 2))
    if url.startswith("postgresql"):
        statement = "SELECT extract(epoch FROM zoned)::text, doc->>'a' FROM orders"
        assert query(url, statement) == [("1704164645.678000", "1")]

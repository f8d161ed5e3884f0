"""What the JDBC sink refuses: configurations, records, tables and databases, each in one line with the remedy."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest

from penstock.connect.config.definition import ConfigException
from penstock.connect.connector import ConnectError, RetriableError
from penstock.connect.connectors.jdbc.sink.connector import JdbcSink
from penstock.connect.connectors.jdbc.sink.debezium import DebeziumJdbcSink
from penstock.connect.data import schema as s
from penstock.connect.data.records import Column
from penstock.core.ids import TopicPartition
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

ORDER = s.struct({"id": s.INT64, "item": s.STRING.optional()})
PARTITION = TopicPartition("orders", 0)


@pytest.fixture(params=DATABASE_PARAMS)
def url(request: pytest.FixtureRequest, new_database: Callable[[str], str]) -> str:
    return new_database(request.param)


@pytest.fixture
def sqlite(new_database: Callable[[str], str]) -> str:
    return new_database("sqlite")


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.parametrize(
    ("properties", "text"),
    [
        ({"delete.enabled": "true"}, "Primary key mode must be 'record_key' when delete support is enabled"),
        ({"insert.mode": "upsert"}, "insert.mode=upsert needs a primary key; set pk.mode"),
        ({"pk.mode": "kafka", "pk.fields": "a,b"}, "pk.mode=kafka takes no fields, or the names of three columns"),
        ({"insert.mode": "merge"}, "Invalid value merge for configuration insert.mode"),
        ({"db.timezone": "Mars"}, "Invalid value Mars for configuration db.timezone: Invalid time zone identifier"),
        ({"table.types": "SYNONYM"}, "Invalid value SYNONYM for configuration table.types"),
        ({"table.name.format": "${schema}.x"}, "the only placeholder is ${topic}"),
        ({"guarantee": "twice"}, "Invalid value twice for configuration guarantee"),
        ({"connection.url": "postgresql://h/d"}, "it must begin with 'jdbc:'"),
        ({"connection.url": "jdbc:oracle:thin:@h:1521:d"}, "the database 'oracle' is not supported"),
        ({"connection.url": "jdbc:sqlite::memory:"}, "name a file"),
        ({"connection.url": "jdbc:postgresql://h/d?magic=1"}, "its option 'magic' is not supported; remove it"),
        ({"connection.url": "jdbc:postgresql://h/"}, "names a database"),
        ({"dialect.name": "OracleDatabaseDialect"}, "leave dialect.name empty"),
    ],
)
def test_configurations(properties: dict[str, str], text: str) -> None:
    (mistake,) = JdbcSink.check({"connection.url": "jdbc:sqlite:/tmp/x.db", **properties})
    assert text in str(mistake)
    with pytest.raises(ConfigException):
        JdbcSink("x", {"connection.url": "jdbc:sqlite:/tmp/x.db", **properties})


@pytest.mark.parametrize("subprotocol", ["postgresql", "mariadb"])
def test_a_database_that_does_not_answer(closed_port: int, subprotocol: str) -> None:
    config = {
        "connection.url": f"jdbc:{subprotocol}://127.0.0.1:{closed_port}/orders",
        "connection.user": "me",
        "connection.password": "hunter2!",
        "max.retries": "0",
    }
    (mistake,) = JdbcSink.check(config)
    assert mistake.name == "connection.url"
    assert str(closed_port) in str(mistake)
    assert "correct connection.url" in str(mistake)
    connector = JdbcSink("x", config)
    with pytest.raises(RetriableError) as at_start:
        connector.start()
    with pytest.raises(RetriableError) as in_task:
        staged(connector, [group(ORDER, [{"id": 1, "item": None}])])
    assert not [each for each in (mistake, at_start.value, in_task.value) if "hunter2" in f"{each}{each!r}"]
    assert "hunter2" not in repr(connector.settings)


def test_a_directory_that_does_not_exist() -> None:
    (mistake,) = JdbcSink.check({"connection.url": "jdbc:sqlite:/nowhere/at/all/x.db"})
    assert mistake.name == "connection.url"
    assert "/nowhere/at/all/x.db" in str(mistake)


@pytest.mark.slow
def test_wrong_credentials(new_database: Callable[[str], str]) -> None:
    config = dict(sink_config(new_database("mysql")))
    (mistake,) = JdbcSink.check({**config, "connection.user": "nobody", "connection.password": "hunter2!"})
    assert mistake.name == "connection.password"
    assert "check connection.user, connection.password" in str(mistake)
    assert "hunter2" not in str(mistake)


def test_a_missing_table(url: str) -> None:
    execute(url, "CREATE TABLE other (id INT)")
    config = {**sink_config(url), "topics": "orders, other"}
    (mistake,) = JdbcSink.check(config)
    assert "table orders does not exist; create it, correct the name, or set auto.create=true" in str(mistake)
    with pytest.raises(ConnectError, match="Table orders is missing and auto-creation is disabled"):
        staged(JdbcSink("x", config), [group(ORDER, [{"id": 1, "item": None}])])


def test_missing_columns(url: str) -> None:
    execute(url, "CREATE TABLE orders (id BIGINT)")
    connector = JdbcSink("x", sink_config(url))
    with pytest.raises(ConnectError, match=r"missing fields \(item\) and auto-evolution is disabled"):
        staged(connector, [group(ORDER, [{"id": 1, "item": None}])])
    evolving = JdbcSink("x", sink_config(url, auto_evolve="true"))
    required = s.struct({"id": s.INT64, "must": s.STRING})
    with pytest.raises(ConnectError, match="field must, as the field is not optional"):
        staged(evolving, [group(required, [{"id": 1, "must": "x"}])])
    defaulted = s.struct({"id": s.INT64, "item": s.STRING.optional(), "n": replace(s.INT32, default=5)})
    staged(evolving, [group(defaulted, [{"id": 1, "item": None, "n": 6}])])
    assert query(url, "SELECT id, item, n FROM orders") == [(1, None, 6)]


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_table_that_is_dropped_between_staging_and_commit(url: str, guarantee: str) -> None:
    connector = JdbcSink("x", sink_config(url, auto_create="true", guarantee=guarantee))
    connector.start()
    try:
        writer = connector.open_writer(0, connector.settings.guarantee)
        writer.put(group(ORDER, [{"id": 1, "item": "a"}]))
        if guarantee == "at_least_once":
            execute(url, "DROP TABLE orders")
            with pytest.raises(ConnectError, match="nothing is lost"):
                writer.finish()
            return
        result = writer.finish()
        execute(url, "DROP TABLE orders")

        with pytest.raises(ConnectError, match="nothing is lost"):
            connector.commit([result], batch(0, 1))
        assert connector.positions([]) == {}
    finally:
        connector.stop()


def test_a_row_that_breaks_a_constraint(url: str) -> None:
    connector = JdbcSink("x", sink_config(url, auto_create="true", pk_mode="record_value", pk_fields="id"))
    connector.start()
    try:
        with pytest.raises(ConnectError) as failure:
            write(connector, group(ORDER, [{"id": 1, "item": "secret-a"}, {"id": 1, "item": "secret-b"}]))
    finally:
        connector.stop()
    assert "secret" not in str(failure.value)
    assert query(url, "SELECT count(*) FROM orders") == [(0,)]


def test_records_without_a_schema(sqlite: str) -> None:
    schemaless = group(None, [{"id": 1}])
    failures = write(JdbcSink("x", sink_config(sqlite)), schemaless)
    assert [failure.rows for failure in failures] == [[0]]
    assert failures[0].java_class == "org.apache.kafka.connect.errors.ConnectException"
    assert failures[0].message.startswith(
        "The JDBC sink connector 'x' is configured with 'delete.enabled=false' and 'pk.mode=none' and therefore"
        " requires non-null record values that are structs, but found record at"
        " (topic='orders',partition=0,offset=0,timestamp=1700000000000) with a HashMap value and null value schema."
    )
    assert "value.converter.schemas.enable=true" in failures[0].message


def test_records_that_are_no_structs_or_have_no_value(sqlite: str) -> None:
    connector = JdbcSink("x", sink_config(sqlite, auto_create="true"))
    connector.start()
    try:
        texts = write(connector, group(s.STRING, ["a"]))
        optional = replace(ORDER, is_optional=True)
        some = write(connector, group(optional, [{"id": 1, "item": None}, None, {"id": 2, "item": None}]))
    finally:
        connector.stop()
    assert "requires record values to be structs" in texts[0].message
    assert [(failure.rows, "with a null value" in failure.message) for failure in some] == [([1], True)]
    assert query(sqlite, "SELECT id FROM orders ORDER BY id") == [(1,), (2,)]


def test_records_without_a_key(sqlite: str) -> None:
    properties = {"pk_mode": "record_key", "insert_mode": "upsert", "delete_enabled": "true", "auto_create": "true"}
    connector = JdbcSink("x", sink_config(sqlite, pk_fields="id", **properties))
    connector.start()
    item = s.struct({"item": s.STRING})
    try:
        records = group(item, [{"item": "a"}, {"item": "b"}], key=s.INT64, keys=[7, None])
        failures = write(connector, records)
        without_schema = replace(records, key=Column(None, pa.array([1, 2])))
        assert "requires non-null record keys with schemas" in write(connector, without_schema)[0].message
        struct_key = s.struct({"other": s.INT64})
        no_field = group(item, [{"item": "a"}], key=struct_key, keys=[{"other": 1}])
        (failure,) = write(connector, no_field)
    finally:
        connector.stop()
    assert [(each.rows, "requires non-null record keys," in each.message) for each in failures] == [([1], True)]
    assert failure.message == (
        "PK mode for table 'orders' is RECORD_KEY with configured PK fields [id], but record key schema does not"
        " contain field: id"
    )
    assert query(sqlite, "SELECT id, item FROM orders") == [(7, "a")]


def test_fields_that_no_column_holds(sqlite: str) -> None:
    nested = s.struct({"id": s.INT64, "part": s.struct({"a": s.INT32})})
    connector = JdbcSink("x", sink_config(sqlite, auto_create="true"))
    (failure,) = write(connector, group(nested, [{"id": 1, "part": {"a": 1}}]))
    assert failure.message.startswith("part (STRUCT) type doesn't have a mapping to the SQL database column type")


def test_positions_are_changed_by_a_person(url: str) -> None:
    config = sink_config(url, auto_create="true", guarantee="exactly_once")
    other = TopicPartition("orders", 1)
    stopped = JdbcSink("x", config)
    assert stopped.positions([]) == {}
    stopped.set_positions({PARTITION: 5, other: 7})
    assert stopped.positions([PARTITION]) == {PARTITION: 5}
    running = JdbcSink("x", config)
    running.start()
    result, _ = staged(running, [group(ORDER, [{"id": 1, "item": None}])])
    stopped.set_positions({other: None})
    assert stopped.positions([]) == {PARTITION: 5}

    with pytest.raises(ConnectError, match="has taken over"):
        running.commit([result], batch(5, 6))
    running.stop()
    stopped.stop()
    with pytest.raises(ConnectError, match="has no ledger"):
        JdbcSink("x", sink_config(url)).set_positions({PARTITION: 1})
    assert JdbcSink("x", sink_config(url)).positions([]) is None


def test_a_batch_that_begins_before_the_ledger_starts_again_from_it(sqlite: str) -> None:
    connector = JdbcSink("x", sink_config(sqlite, auto_create="true", guarantee="exactly_once"))
    connector.start()
    try:
        write(connector, group(ORDER, [{"id": 1, "item": None}]), end=10)
        with pytest.raises(RetriableError, match="starts again from the ledger"):
            write(connector, group(ORDER, [{"id": 2, "item": None}]), start=5, end=20)
    finally:
        connector.stop()
    assert query(sqlite, "SELECT id FROM orders") == [(1,)]


def test_names_without_quotes(url: str) -> None:
    connector = JdbcSink("x", sink_config(url, auto_create="true", quote_sql_identifiers="never"))
    connector.start()
    mixed = s.struct({"Id": s.INT64})
    try:
        write(connector, group(mixed, [{"Id": 1}], topic="Orders"))
        with pytest.raises(ConnectError, match=r"needs quotes, and quote\.sql\.identifiers is never"):
            write(connector, group(s.struct({"a; b": s.INT64}), [{"a; b": 1}], topic="bad"))
    finally:
        connector.stop()
    assert query(url, "SELECT id FROM Orders") == [(1,)]


def test_debezium_names(url: str) -> None:
    connection = {name: value for name, value in sink_config(url).items() if name.startswith("connection.")}
    if "connection.user" in connection:
        connection["connection.username"] = connection.pop("connection.user")
    config = {
        **connection,
        "insert.mode": "upsert",
        "primary.key.mode": "record_key",
        "primary.key.fields": "id",
        "schema.evolution": "basic",
        "delete.enabled": "true",
        "collection.name.format": "kept_${topic}",
        "guarantee": "exactly_once",
    }
    assert DebeziumJdbcSink.check(config) == ()
    connector = DebeziumJdbcSink("x", config)
    connector.start()
    try:
        key = s.struct({"id": s.INT64})
        records = group(ORDER, [{"id": 1, "item": "a"}], key=key, keys=[{"id": 1}], topic="server.shop.orders")
        write(connector, records)
    finally:
        connector.stop()
    assert query(url, "SELECT id, item FROM kept_server_shop_orders") == [(1, "a")]
    with pytest.raises(ConfigException, match=r"primary\.key\.mode"):
        DebeziumJdbcSink("x", {**config, "primary.key.mode": "none"})
    older = {**config, "database.time_zone": "Asia/Tokyo"}
    assert DebeziumJdbcSink("x", older).settings.timezone == "Asia/Tokyo"
    assert DebeziumJdbcSink("x", {**older, "use.time.zone": "Europe/Paris"}).settings.timezone == "Europe/Paris"

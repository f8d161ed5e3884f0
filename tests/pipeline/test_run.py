"""Pipelines from topic to sink, with Spark and a broker: what arrives, and what goes to the dead letters."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.sinks import dead_letter_publication
from penstock.wire.client import WireClient
from tests.pipeline.pipeline_runs import Pipelines, of_kind, sqlite_rows

ORDERS = "id BIGINT, customer STRING, amount DOUBLE"


def order(number: int, customer: str, amount: Any) -> dict[str, Any]:
    return {"id": number, "customer": customer, "amount": amount}


def test_revenue_goes_exactly_once_into_a_table_and_broken_rows_to_the_dead_letters(pipelines: Pipelines) -> None:
    orders, letters = pipelines.topic("orders"), pipelines.name("letters")
    revenue = f"""
        name: {pipelines.name("revenue")}
        guarantee: exactly_once
        source: {{topic: {orders}, format: json, schema: "{ORDERS}"}}
        transform: SELECT customer, sum(amount) AS revenue FROM source GROUP BY customer
        sink: {{table: revenue, url: "sqlite:///revenue.db", mode: upsert, key: [customer]}}
        on_error: {{dead_letters: {letters}}}
    """
    pipelines.send(orders, [order(1, "ada", 10), "nonsense", order(2, "bob", 5), order(3, "ada", "much")], key="k")
    events = pipelines.once(revenue)
    database = pipelines.directory / "revenue.db"
    assert sqlite_rows(database, "SELECT * FROM revenue ORDER BY customer") == [("ada", 10.0), ("bob", 5.0)]
    assert events[-1]["total"] == {"rows": 4, "batches": 1, "dead_letters": 2, "dropped": 0}

    pipelines.send(orders, [order(4, "ada", 1), None])
    pipelines.once(revenue)
    assert sqlite_rows(database, "SELECT * FROM revenue ORDER BY customer") == [("ada", 11.0), ("bob", 5.0)]
    by_value = {letter.value: letter for letter in pipelines.records(letters)}
    assert set(by_value) == {None, "nonsense", '{"id": 3, "customer": "ada", "amount": "much"}'}
    nonsense = by_value["nonsense"]
    assert nonsense.key == "k"
    assert nonsense.headers == {
        "penstock.reason": "the value is not a JSON object: 'nonsense'",
        "penstock.stage": "parse",
        "penstock.topic": orders,
        "penstock.partition": "1",
        "penstock.offset": "0",
        "penstock.pipeline": pipelines.name("revenue"),
    }
    # Its progress is a consumer group's, for every tool that shows lag.
    assert pipelines.committed(pipelines.name("revenue"), orders) == {0: 3, 1: 3}


def test_a_topic_sink_commits_rows_and_dead_letters_together(pipelines: Pipelines) -> None:
    orders, good, letters = pipelines.topic("orders"), pipelines.topic("good"), pipelines.topic("letters")
    checked = f"""
        name: {pipelines.name("checked")}
        guarantee: exactly_once
        source: {{topic: {orders}, schema: "{ORDERS}", include: [key]}}
        expect: {{positive amount: amount > 0}}
        transform: SELECT customer, amount * 2 AS twice, _key FROM source WHERE amount < 100
        sink: {{topic: {good}, key: customer, headers: {{from: "_key"}}}}
        on_error: {{dead_letters: {letters}}}
    """
    pipelines.send(orders, [order(1, "ada", 10), order(2, "bob", -5), order(3, "cy", 1000), "["], key="k")
    pipelines.once(checked)
    assert [(found.key, found.value, found.headers) for found in pipelines.records(good)] == [
        ("ada", '{"customer":"ada","twice":20.0,"_key":"k"}', {"from": "k"})
    ]
    reasons = {found.value: found.headers["penstock.reason"] for found in pipelines.records(letters)}
    assert reasons == {
        '{"id": 2, "customer": "bob", "amount": -5}': "breaks expect 'positive amount': amount > 0 (amount = '-5.0')",
        "[": "the value is not a JSON object: '['",
    }


@pytest.mark.parametrize(
    "guarantee",
    ["exactly_once", *(pytest.param(weaker, marks=pytest.mark.slow) for weaker in ("at_least_once", "at_most_once"))],
)
def test_files_hold_the_good_rows_with_every_guarantee(pipelines: Pipelines, guarantee: str) -> None:
    orders, letters = pipelines.topic("orders"), pipelines.topic("letters")
    stored = f"""
        name: {pipelines.name("stored")}
        guarantee: {guarantee}
        source: {{topic: {orders}, schema: "{ORDERS}"}}
        sink: {{files: stored, format: json, partition_by: [customer]}}
        on_error: {{dead_letters: {letters}}}
    """
    pipelines.send(orders, [order(1, "ada", 10), "nonsense", order(2, "bob", 5)])
    pipelines.once(stored)
    pipelines.send(orders, [order(3, "ada", 7)])
    pipelines.once(stored)
    rows = pipelines.spark.read.json(str(pipelines.directory / "stored")).orderBy("id").collect()
    assert [(row["id"], row["customer"], row["amount"]) for row in rows] == [
        (1, "ada", 10.0),
        (2, "bob", 5.0),
        (3, "ada", 7.0),
    ]
    assert [found.value for found in pipelines.records(letters)] == ["nonsense"]


@pytest.mark.slow
def test_many_dead_letters_pass_through_a_file(pipelines: Pipelines, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letter_publication, "_CHUNK_ROWS", 4)
    orders, letters = pipelines.topic("orders"), pipelines.topic("letters")
    stored = f"""
        name: {pipelines.name("stored")}
        guarantee: exactly_once
        source: {{topic: {orders}, schema: "{ORDERS}"}}
        sink: {{files: stored, format: json}}
        on_error: {{dead_letters: {letters}}}
    """
    broken = [None, *(f"nonsense {number}" for number in range(20))]
    pipelines.send(orders, [order(1, "ada", 10), *broken], key="a key")
    pipelines.once(stored)
    found = pipelines.records(letters)
    assert sorted(str(letter.value) for letter in found) == sorted(map(str, broken))
    assert {letter.key for letter in found} == {"a key"}
    assert {(letter.headers["penstock.topic"], letter.headers["penstock.stage"]) for letter in found} == {
        (orders, "parse")
    }
    assert len({(letter.headers["penstock.partition"], letter.headers["penstock.offset"]) for letter in found}) == 21


def test_dropped_rows_are_counted_and_columns_are_inferred_once(pipelines: Pipelines) -> None:
    orders = pipelines.topic("orders", partitions=1)
    shown = f"""
        name: {pipelines.name("shown")}
        source: {{topic: {orders}}}
        transform: SELECT id, amount + 1 AS more FROM source
        sink: {{console: true}}
        on_error: drop
    """
    pipelines.send(orders, [{"id": 1, "amount": 1.5}, "nonsense"])
    [rows] = of_kind(pipelines.once(shown), "rows")
    assert rows["rows"] == [{"id": 1, "more": 2.5}]
    # Were they inferred again, `amount` would be text now.
    pipelines.send(orders, [{"id": 2, "amount": "a"}, {"id": 3, "amount": 3.5, "new": True}])
    events = pipelines.once(shown)
    assert [event["rows"] for event in of_kind(events, "rows")] == [[{"id": 3, "more": 4.5}]]
    assert events[-1]["total"]["dropped"] == 1


def test_windows_close_with_the_watermark(pipelines: Pipelines) -> None:
    clicks, counts = pipelines.topic("clicks", partitions=1), pipelines.topic("counts")
    counted = f"""
        name: {pipelines.name("counted")}
        guarantee: exactly_once
        source:
          topic: {clicks}
          schema: page STRING, at TIMESTAMP
          timestamp: at
          watermark: 1 minute
        transform: |
          SELECT page, window.start AS minute, count(*) AS clicks FROM source GROUP BY page, window(at, '1 minute')
        sink: {{topic: {counts}, key: page}}
    """
    pipelines.send(clicks, [{"page": "a", "at": f"2026-01-01T00:00:{second:02}Z"} for second in (1, 2, 59)])
    pipelines.once(counted)
    assert pipelines.records(counts) == []
    pipelines.send(clicks, [{"page": "a", "at": "2026-01-01T00:05:00Z"}])
    pipelines.once(counted)
    assert pipelines.values(counts) == [{"page": "a", "minute": "2026-01-01T00:00:00.000Z", "clicks": 3}]


@pytest.mark.slow
def test_streams_join_with_streams_and_with_tables(pipelines: Pipelines) -> None:
    orders, payments = pipelines.topic("orders", partitions=1), pipelines.topic("payments", partitions=1)
    paid, letters = pipelines.topic("paid", partitions=1), pipelines.topic("letters", partitions=1)
    connection = sqlite3.connect(pipelines.directory / "shop.db")
    connection.execute("CREATE TABLE customers (name TEXT, country TEXT)")
    connection.execute("INSERT INTO customers VALUES ('ada', 'UK')")
    connection.commit()
    connection.close()
    joined = f"""
        name: {pipelines.name("joined")}
        guarantee: exactly_once
        sources:
          orders: {{topic: {orders}, schema: "id BIGINT, customer STRING, ordered_at TIMESTAMP",
                    timestamp: ordered_at, watermark: 10 minutes}}
          payments: {{topic: {payments}, schema: "order_id BIGINT, paid_at TIMESTAMP",
                      timestamp: paid_at, watermark: 10 minutes}}
          customers: {{table: customers, url: "sqlite:///shop.db", schema: "name STRING, country STRING"}}
        transform:
          - paid: |
              SELECT id, customer FROM orders JOIN payments
              ON order_id = id AND paid_at BETWEEN ordered_at AND ordered_at + INTERVAL 1 HOUR
          - SELECT id, country FROM paid LEFT JOIN customers ON name = customer
        sink: {{topic: {paid}}}
        on_error: {{dead_letters: {letters}}}
    """
    pipelines.send(
        orders,
        [
            {"id": 1, "customer": "ada", "ordered_at": "2026-01-01T00:00:00Z"},
            {"id": 2, "customer": "bob", "ordered_at": "2026-01-01T00:00:00Z"},
            "broken order",
        ],
    )
    pipelines.send(payments, [{"order_id": 1, "paid_at": "2026-01-01T00:30:00Z"}, "broken payment"])
    pipelines.once(joined)
    pipelines.send(payments, [{"order_id": 2, "paid_at": "2026-01-01T00:20:00Z"}])
    pipelines.once(joined)
    assert sorted(pipelines.values(paid), key=lambda row: row["id"]) == [
        {"id": 1, "country": "UK"},
        {"id": 2, "country": None},
    ]
    assert {found.headers["penstock.topic"] for found in pipelines.records(letters)} == {orders, payments}


@pytest.mark.slow
def test_repeats_are_dropped_over_batches_and_files_are_read_as_they_come(pipelines: Pipelines) -> None:
    incoming, unique = pipelines.directory / "incoming", pipelines.topic("unique")
    incoming.mkdir()
    deduped = f"""
        name: {pipelines.name("deduped")}
        source: {{files: incoming, format: csv, schema: "id BIGINT, word STRING", dedupe: [id]}}
        sink: {{topic: {unique}, format: text, value: word}}
        on_error: drop
    """
    (incoming / "1.csv").write_text("1,one\n2,two\n1,again\nx,broken\n")
    first = pipelines.once(deduped)
    (incoming / "2.csv").write_text("2,again\n3,three\n")
    pipelines.once(deduped)
    assert sorted(str(found.value) for found in pipelines.records(unique)) == ["one", "three", "two"]
    assert first[-1]["total"]["dropped"] == 1


def test_a_function_is_given_every_batch_and_its_id(pipelines: Pipelines) -> None:
    (pipelines.directory / "keeper_of_rows.py").write_text(
        "kept = {}\ndef keep(rows, batch_id):\n    kept[batch_id] = [row['id'] for row in rows.collect()]\n"
    )
    orders = pipelines.topic("orders", partitions=1)
    kept_rows = f"""
        name: {pipelines.name("kept")}
        guarantee: at_most_once
        source: {{topic: {orders}, schema: "{ORDERS}"}}
        sink: {{python: "keeper_of_rows:keep"}}
    """
    pipelines.send(orders, [order(1, "ada", 1)])
    pipelines.once(kept_rows)
    pipelines.send(orders, [order(2, "ada", 1)])
    pipelines.once(kept_rows)
    import keeper_of_rows  # type: ignore[import-not-found]

    assert keeper_of_rows.kept == {0: [1], 1: [2]}


@pytest.mark.slow
def test_every_change_of_an_aggregation_can_go_to_a_topic(pipelines: Pipelines) -> None:
    orders, changes = pipelines.topic("orders", partitions=1), pipelines.topic("changes", partitions=1)
    counted = f"""
        name: {pipelines.name("changes")}
        guarantee: exactly_once
        output_mode: update
        source: {{topic: {orders}, schema: "{ORDERS}"}}
        transform: SELECT customer, count(*) AS orders FROM source GROUP BY customer
        sink: {{topic: {changes}, key: customer}}
    """
    pipelines.send(orders, [order(1, "ada", 1), order(2, "bob", 1)])
    pipelines.once(counted)
    pipelines.send(orders, [order(3, "ada", 1)])
    pipelines.once(counted)
    assert sorted((found.key, found.value) for found in pipelines.records(changes)) == [
        ("ada", '{"customer":"ada","orders":1}'),
        ("ada", '{"customer":"ada","orders":2}'),
        ("bob", '{"customer":"bob","orders":1}'),
    ]


def test_a_row_that_deletes_becomes_a_tombstone_and_a_tombstone_a_row(pipelines: Pipelines) -> None:
    stock, sink, letters = pipelines.topic("stock", partitions=1), pipelines.topic("sink"), pipelines.topic("letters")
    pipelines.send(stock, [{"item": "bolt", "pieces": 3}], key="bolt")
    pipelines.send(stock, [None], key="nut")
    pipelines.send(stock, [{"item": "screw", "pieces": 0}, "nonsense"], key="screw")
    pipelines.once(
        f"""
        name: {pipelines.name("emptied")}
        guarantee: exactly_once
        source: {{topic: {stock}, schema: "item STRING, pieces INT", include: [key], tombstones: keep}}
        expect: {{"counted": pieces >= 0}}
        transform: SELECT _key AS item, pieces, _tombstone OR pieces = 0 AS gone FROM source
        sink: {{topic: {sink}, key: item, delete_when: gone}}
        on_error: {{dead_letters: {letters}}}
        """
    )
    found = {record.key: record.value and json.loads(record.value) for record in pipelines.records(sink)}
    assert found == {"bolt": {"item": "bolt", "pieces": 3}, "nut": None, "screw": None}
    assert [record.value for record in pipelines.records(letters)] == ["nonsense"]


def test_a_start_asks_a_cluster_once_and_analyses_each_query_once(
    pipelines: Pipelines, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    analysed: list[str] = []
    metadata, sql = WireClient.metadata, SparkSession.sql

    def counted_metadata(client: WireClient, topics: Any, **more: Any) -> Any:
        asked.append(topics)
        return metadata(client, topics, **more)

    def counted_sql(session: SparkSession, query: str, *arguments: Any, **more: Any) -> Any:
        analysed.append(query)
        return sql(session, query, *arguments, **more)

    monkeypatch.setattr(WireClient, "metadata", counted_metadata)
    monkeypatch.setattr(SparkSession, "sql", counted_sql)
    source, sink, letters = (pipelines.topic(word) for word in ("source", "sink", "letters"))
    pipelines.send(source, [{"id": 1}, "nonsense"])
    pipelines.once(
        f"""
        name: {pipelines.name("counted")}
        guarantee: exactly_once
        source: {{topic: {source}, schema: "id BIGINT"}}
        transform: [{{a: "SELECT id + 1 AS id FROM source"}}, "SELECT id FROM a WHERE id > 0"]
        sink: {{topic: {sink}}}
        on_error: {{dead_letters: {letters}}}
        """
    )
    assert pipelines.values(sink) == [{"id": 2}]
    assert asked == [None], "source, sink and dead letters are on one cluster, which is asked for all of its topics"
    assert analysed == ["SELECT id + 1 AS id FROM source", "SELECT id FROM a WHERE id > 0"]

from __future__ import annotations

from typing import Any

from penstock.bench.spark_orders import Drained, Engine, Orders, Pace, Query, drained


def batch(rows: int, trigger_ms: int) -> dict[str, Any]:
    return {"numInputRows": rows, "durationMs": {"triggerExecution": trigger_ms, "addBatch": trigger_ms // 2}}


def test_orders_travel_whole() -> None:
    queries = (
        Query("in", None),
        Query("in", "out", "exactly_once", rows_per_batch=10),
        Query("in", None, "exactly_once", sink_table="out"),
    )
    orders = Orders(Engine.PENSTOCK, "127.0.0.1:9092", Pace.DRAIN, queries, "postgresql://someone@127.0.0.1/there")
    assert Orders.from_json(orders.as_json()) == orders


def test_rows_and_time_of_the_batches_that_had_rows() -> None:
    assert drained([batch(100, 1500), batch(0, 9000), batch(50, 500)]) == Drained(rows=150, seconds=2.0, batches=2)


def test_a_query_that_found_nothing() -> None:
    assert drained([batch(0, 20)]) == Drained(rows=0, seconds=0.0, batches=0)

from __future__ import annotations

from typing import Any

from penstock.bench.spark.workload import Engine, Mode, Query, QueryResult, Workload, query_result


def batch(rows: int, trigger_ms: int) -> dict[str, Any]:
    return {"numInputRows": rows, "durationMs": {"triggerExecution": trigger_ms, "addBatch": trigger_ms // 2}}


def test_orders_travel_whole() -> None:
    queries = (
        Query("in", None),
        Query("in", "out", "exactly_once", rows_per_batch=10),
        Query("in", None, "exactly_once", sink_table="out"),
    )
    workload = Workload(
        Engine.PENSTOCK, "127.0.0.1:9092", Mode.AVAILABLE_NOW, queries, "postgresql://someone@127.0.0.1/there"
    )
    assert Workload.from_json(workload.as_json()) == workload


def test_rows_and_time_of_the_batches_that_had_rows() -> None:
    assert query_result([batch(100, 1500), batch(0, 9000), batch(50, 500)]) == QueryResult(
        rows=150, seconds=2.0, batches=2
    )


def test_a_query_that_found_nothing() -> None:
    assert query_result([batch(0, 20)]) == QueryResult(rows=0, seconds=0.0, batches=0)

"""Spark's progress in our terms. The JSON is cut from what Spark 4.3 reports."""

from __future__ import annotations

import json
from typing import Any

from penstock.core.ids import TopicPartition
from penstock.pipeline.progress import BatchProgress, Tally
from penstock.pipeline.spark.internals import ReportedBatch, read_progress


def progress(batch: int = 0, rows: int = 24, **more: Any) -> ReportedBatch:
    report = json.dumps(
        {
            "batchId": batch,
            "timestamp": f"2026-01-01T00:00:{batch:02}.000Z",
            "batchDuration": 200,
            "numInputRows": rows,
            "durationMs": {"addBatch": 100, "triggerExecution": 200},
            "sources": [
                {
                    "endOffset": {"@start": {"orders": {"0": 0}}, "orders": {"0": 12, "1": 3}},
                    "latestOffset": {"orders": {"0": 20, "1": 3}},
                },
                {"endOffset": {"logOffset": 4}, "latestOffset": None},
            ],
            "observedMetrics": {"penstock_dead_letters": {"rows": 2}, "penstock_dropped_a": {"rows": 1}, "other": {}},
            **more,
        }
    )
    return read_progress(report)


def test_rows_lag_and_bad_rows_are_read() -> None:
    batch = BatchProgress.of(progress(), passes=2)
    assert (batch.rows, batch.duration_ms, batch.dead_letters, batch.dropped) == (12, 200, 2, 1)
    assert batch.ends == {TopicPartition("orders", 0): 12, TopicPartition("orders", 1): 3}
    assert batch.lag == {TopicPartition("orders", 0): 8, TopicPartition("orders", 1): 0}


def test_a_batch_counts_once() -> None:
    tally = Tally()
    assert tally.add(BatchProgress.of(progress(0, 10)))
    assert tally.add(BatchProgress.of(progress(1, 5)))
    assert not tally.add(BatchProgress.of(progress(1, 5)))
    assert tally.totals() == {"rows": 15, "batches": 2, "dead_letters": 4, "dropped": 2}
    event = tally.event()
    assert (event["lag"], event["rows_per_second"]) == (8, 25.0)
    assert event["lag_by_partition"] == {"orders": {"0": 8, "1": 0}}

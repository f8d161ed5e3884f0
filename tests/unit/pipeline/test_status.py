"""States and figures from events, with clocks that the test moves."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.pipeline.status import PipelineStatus

STARTED = {"event": "started", "guarantee": "exactly_once", "checkpoint": "/cp", "run": "r1"}


class Time:
    def __init__(self) -> None:
        self.s = 1000.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def status(time: Time) -> PipelineStatus:
    return PipelineStatus("revenue", clock=time, wall_clock=time)


def progress(batch: int, rows: int, batch_ms: int, lag: int = 0) -> dict[str, Any]:
    return {
        "event": "progress",
        "batch": batch,
        "rows": rows,
        "batch_ms": batch_ms,
        "lag": lag,
        "lag_by_partition": {"orders": {"0": lag}},
        "watermark": None,
        "total": {"rows": rows, "batches": batch + 1, "dead_letters": 0, "dropped": 0},
    }


def test_a_life_in_connects_words(status: PipelineStatus) -> None:
    states = [status.state]
    for event in (
        {"event": "starting"},
        STARTED,
        progress(0, 10, 100),
        {"event": "restarting", "reason": "no broker answered", "in_seconds": 1},
        progress(1, 10, 100),
        {"event": "failed", "reason": "no such column", "exit_code": 21, "condition": "PENSTOCK_INVALID_SQL"},
        {"event": "starting"},
        {"event": "stopped", "total": {"rows": 20, "batches": 2, "dead_letters": 0, "dropped": 0}},
    ):
        status.apply(event)
        states.append(status.state)
    assert states == [
        "UNASSIGNED",
        "STARTING",
        "RUNNING",
        "RUNNING",
        "RESTARTING",
        "RUNNING",
        "FAILED",
        "STARTING",
        "STOPPED",
    ]
    assert status.as_json()["restarts"] == 1
    assert status.as_json()["total"]["rows"] == 20


def test_the_rate_of_a_long_batch_is_its_own(status: PipelineStatus, time: Time) -> None:
    status.apply(STARTED)
    time.s += 113
    status.apply(progress(0, 5_000_000, 113_000, lag=7))
    assert status.rows_per_second == pytest.approx(5_000_000 / 113)
    time.s += 60
    status.apply({"event": "batch", "batch": 1, "tasks": 12, "tasks_done": 3})
    assert status.rows_per_second == pytest.approx(5_000_000 / 113)
    assert status.activity == "batch 1: 3 of 12 tasks"


def test_an_idle_pipeline_is_up_to_date(status: PipelineStatus, time: Time) -> None:
    status.apply(STARTED)
    status.apply(progress(0, 10, 100, lag=5))
    assert status.activity == ""
    status.apply(progress(1, 5, 100))
    assert status.activity == "up to date"
    status.apply({"event": "idle"})
    time.s += 60
    assert (status.activity, status.rows_per_second, status.lag) == ("up to date", 0, 0)


def test_several_sinks_are_one_pipeline(status: PipelineStatus, time: Time) -> None:
    status.apply({**STARTED, "sinks": ["archive", "totals"]})
    time.s += 1
    status.apply({**progress(4, 100, 1000, lag=3), "sink": "archive"})
    status.apply({**progress(0, 50, 1000), "sink": "totals"})
    assert (status.lag, status.total["rows"], status.total["batches"]) == (3, 100, 6)
    assert status.rows_per_second == pytest.approx(100)
    status.apply({"event": "idle", "sink": "totals"})
    status.apply({"event": "batch", "sink": "archive", "batch": 5, "tasks": 4, "tasks_done": 1})
    assert status.activity == "archive: batch 5: 1 of 4 tasks"
    status.apply({"event": "restarting", "sink": "archive", "reason": "no database", "in_seconds": 1})
    status.apply({**progress(1, 50, 1000), "sink": "totals"})
    assert (status.state, status.reason) == ("RESTARTING", "no database")
    status.apply({"event": "idle", "sink": "archive"})
    status.apply({"event": "idle", "sink": "totals"})
    assert (status.state, status.activity) == ("RUNNING", "up to date")


def test_what_is_away_stays_said_until_it_is_back(status: PipelineStatus) -> None:
    status.apply(STARTED)
    status.apply({"event": "waiting", "reason": "no broker at 127.0.0.1:9092"})
    status.apply({"event": "batch", "batch": 1, "tasks": 1, "tasks_done": 0})
    assert (status.state, status.reason) == ("RUNNING", "no broker at 127.0.0.1:9092")
    status.apply({"event": "resumed"})
    assert status.reason == ""


def test_a_failure_carries_code_condition_and_problems(status: PipelineStatus) -> None:
    problems = ["revenue.yaml:3: sink.mode: 'upsrt' is not one of append, upsert"]
    status.apply({"event": "failed", "reason": problems[0], "exit_code": 20, "problems": problems})
    shown = status.as_json()
    assert (shown["state"], shown["exit_code"], shown["problems"]) == ("FAILED", 20, problems)
    status.apply({"event": "starting"})
    assert status.as_json()["exit_code"] is None

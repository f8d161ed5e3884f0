"""What `penstock up` shows of its pipelines: a table, lines or JSON."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from penstock.cli.up_view import UpView
from penstock.pipeline.status import PipelineStatus


def status(name: str, *events: dict[str, Any]) -> dict[str, Any]:
    found = PipelineStatus(name)
    for event in events:
        found.apply(event)
    return {**found.as_json(), "target": "RUNNING", "attached": False, "pid": None, "stopping": False, "file": None}


STARTED = {"event": "started", "guarantee": "exactly_once", "checkpoint": "/cp"}
FAILED = {"event": "failed", "reason": "bad.yaml:3: sink.mode: no", "exit_code": 20}
PROGRESS = {
    "event": "progress",
    "batch": 2,
    "rows": 400,
    "batch_ms": 80,
    "lag": 0,
    "lag_by_partition": {"orders": {"0": 0}},
    "total": {"rows": 1200, "batches": 3, "dead_letters": 2, "dropped": 0},
}


def test_without_a_terminal_each_change_is_a_line() -> None:
    screen = io.StringIO()
    view = UpView(screen, io.StringIO(), interactive=False, as_json=False)
    view.broker_started("127.0.0.1:9092")
    view.ready(lambda: [status("bad", FAILED), status("revenue", {"event": "starting"})])
    for _ in range(3):
        view.show([status("bad", FAILED), status("revenue", STARTED, PROGRESS)])
    view.stopping([status("revenue", STARTED)])
    view.show([status("revenue", STARTED, {"event": "stopped"})])
    assert screen.getvalue().splitlines() == [
        "penstock: broker on 127.0.0.1:9092; starting the engine",
        "penstock: engine ready; `penstock run FILE` uses it. ctrl-C lets pipelines finish their batches and stops"
        " everything; the next `penstock up` continues",
        "penstock: bad: FAILED: bad.yaml:3: sink.mode: no",
        "penstock: revenue: STARTING",
        "penstock: revenue: RUNNING",
        "penstock: stopping after the current batch of revenue; ctrl-C again does not wait",
        "penstock: revenue: STOPPED",
        "penstock: bad: ended",
    ]


def test_for_programs_each_change_is_an_object() -> None:
    events = io.StringIO()
    view = UpView(io.StringIO(), events, interactive=False, as_json=True)
    view.broker_started("127.0.0.1:9092")
    view.ready(lambda: [status("revenue", STARTED)])
    view.stopping([])
    told = [json.loads(line) for line in events.getvalue().splitlines()]
    assert [event["event"] for event in told] == ["broker", "ready", "pipeline", "stopping"]
    assert told[2]["pipeline"]["state"] == "RUNNING"


@pytest.mark.parametrize("width", [100, 160])
def test_on_a_terminal_a_table_is_drawn(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    screen = io.StringIO()
    with UpView(screen, io.StringIO(), interactive=True, as_json=False) as view:
        view.broker_started("127.0.0.1:9092")
        view.ready(lambda: [status("bad", FAILED), status("revenue", STARTED, PROGRESS)])
    drawn = " ".join(screen.getvalue().split())
    for words in (
        "NAME STATE GUARANTEE ROWS/S LAG LAST-BATCH DEAD-LETTERS RESTARTS",
        "revenue RUNNING exactly_once 5,000 0 80 ms, 0 s ago 2 0",
        "up to date",
        "bad FAILED",
        "bad: bad.yaml:3: sink.mode: no",
        "ctrl-C lets pipelines finish",
    ):
        assert words in drawn

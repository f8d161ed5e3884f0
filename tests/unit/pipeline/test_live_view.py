"""What is shown of a running pipeline, to people and to programs."""

from __future__ import annotations

import io
import json
from typing import Any

from penstock.pipeline.live_view import LiveView, json_lines

TOTAL = {"rows": 1200, "batches": 3, "dead_letters": 2, "dropped": 0}
EVENTS: list[dict[str, Any]] = [
    {"event": "started", "pipeline": "revenue", "guarantee": "exactly_once", "checkpoint": "/cp"},
    {
        "event": "progress",
        "pipeline": "revenue",
        "batch": 2,
        "rows": 400,
        "batch_ms": 80,
        "lag": 7,
        "lag_by_partition": {"orders": {"0": 7, "1": 0}},
        "watermark": None,
        "total": TOTAL,
    },
    {
        "event": "rows",
        "pipeline": "revenue",
        "batch": 2,
        "count": 1,
        "columns": ["a", "b"],
        "rows": [{"a": 1, "b": None}],
    },
    {"event": "restarting", "pipeline": "revenue", "reason": "no broker answered", "in_seconds": 1.0},
    {"event": "stopped", "pipeline": "revenue", "total": TOTAL},
]


def test_without_a_terminal_what_happens_is_told_in_lines() -> None:
    screen, rows = io.StringIO(), io.StringIO()
    view = LiveView(screen, rows, interactive=False)
    for event in EVENTS:
        view(event)
    assert screen.getvalue().splitlines() == [
        "penstock: revenue: running, exactly_once; checkpoint /cp",
        "penstock: revenue: restarting in 1 s: no broker answered",
        "penstock: revenue: stopped after 1,200 rows in 3 batches, 2 dead letters",
    ]
    assert "NULL" in rows.getvalue()


def test_one_is_not_told_as_several() -> None:
    screen, rows = io.StringIO(), io.StringIO()
    view = LiveView(screen, rows, interactive=False)
    view(EVENTS[2])
    view({**EVENTS[-1], "total": {"rows": 1, "batches": 1, "dead_letters": 1, "dropped": 1}})
    assert screen.getvalue() == "penstock: revenue: stopped after 1 row in 1 batch, 1 dead letter, 1 dropped\n"
    assert rows.getvalue().split()[:4] == ["batch", "2:", "1", "row"]


def test_on_a_terminal_rates_lag_and_dead_letters_are_drawn() -> None:
    screen = io.StringIO()
    view = LiveView(screen, io.StringIO(), interactive=True)
    for event in EVENTS[:2]:
        view(event)
    view.close()
    drawn = screen.getvalue()
    for word in ("revenue · exactly_once", "1,200", "orders-0: 7", "80 ms", "dead letters"):
        assert word in drawn


def test_programs_get_a_json_object_a_line() -> None:
    output = io.StringIO()
    report = json_lines(output)
    for event in EVENTS:
        report(event)
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    assert [line["event"] for line in lines] == [event["event"] for event in EVENTS]
    assert all(line["at"] > 0 for line in lines)

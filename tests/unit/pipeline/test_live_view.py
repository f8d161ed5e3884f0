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


def test_a_long_batch_is_shown_at_the_rate_at_which_it_was_processed() -> None:
    screen = io.StringIO()
    now = [1000.0]
    view = LiveView(screen, io.StringIO(), interactive=True, clock=lambda: now[0])
    view(EVENTS[0])
    now[0] += 113
    view({**EVENTS[1], "rows": 5_000_000, "batch_ms": 113_000, "lag": 9})
    view.close()
    assert "44,248/s" in screen.getvalue()


def test_what_happens_while_a_person_waits_is_told() -> None:
    screen = io.StringIO()
    view = LiveView(screen, io.StringIO(), interactive=False)
    of_pipeline = {"pipeline": "revenue"}
    view(EVENTS[0])
    for event in (
        {"event": "batch", "batch": 0, "tasks": 8, "tasks_done": 2},
        {"event": "idle"},
        {"event": "waiting", "reason": "no broker answers at 127.0.0.1:9092"},
        {"event": "resumed"},
        {"event": "idle"},
        {"event": "restarting", "reason": "the database is gone", "in_seconds": 1.0},
        {"event": "idle"},
    ):
        view({**event, **of_pipeline})
    assert screen.getvalue().splitlines()[1:] == [
        "penstock: revenue: up to date",
        "penstock: revenue: no broker answers at 127.0.0.1:9092",
        "penstock: revenue: running again",
        "penstock: revenue: restarting in 1 s: the database is gone",
        "penstock: revenue: running again",
    ]


def test_on_a_terminal_the_tasks_of_a_batch_and_an_outage_are_drawn() -> None:
    screen = io.StringIO()
    view = LiveView(screen, io.StringIO(), interactive=True)
    view(EVENTS[0])
    view({"event": "batch", "pipeline": "revenue", "batch": 0, "tasks": 8, "tasks_done": 2})
    view.close()
    assert "batch 0: 2 of 8 tasks" in screen.getvalue()
    view({"event": "waiting", "pipeline": "revenue", "reason": "no broker answers"})
    view.close()
    assert "no broker answers" in screen.getvalue()


def test_programs_get_a_json_object_a_line() -> None:
    output = io.StringIO()
    report = json_lines(output)
    for event in EVENTS:
        report(event)
    lines = [json.loads(line) for line in output.getvalue().splitlines()]
    assert [line["event"] for line in lines] == [event["event"] for event in EVENTS]
    assert all(line["at"] > 0 for line in lines)

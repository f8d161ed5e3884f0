"""The log of a pipeline: what is worth a line, its bounded size, and reading along."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.pipeline.engine.event_log import FILES_KEPT, EventLog, LogReader, log_path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return log_path(tmp_path / "logs", "a/b")


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["event"] for event in events]


def test_events_are_read_again_with_their_time(path: Path) -> None:
    log = EventLog(path, wall_clock=lambda: 1700000000.0)
    log.append({"event": "starting", "pipeline": "p"})
    log.append({"event": "failed", "pipeline": "p", "reason": "no"})
    assert LogReader(path).history() == [
        {"at": 1700000000.0, "event": "starting", "pipeline": "p"},
        {"at": 1700000000.0, "event": "failed", "pipeline": "p", "reason": "no"},
    ]
    assert kinds(LogReader(path).history(1)) == ["failed"]
    assert LogReader(path).history(0) == []


def test_small_batches_do_not_fill_the_log(path: Path) -> None:
    now = [0.0]
    log = EventLog(path, clock=lambda: now[0])
    for number in range(1000):
        now[0] += 0.05
        log.append({"event": "progress", "batch": number})
        log.append({"event": "batch", "batch": number})
        log.append({"event": "idle"})
    assert kinds(LogReader(path).history()).count("progress") == 5
    assert "batch" not in kinds(LogReader(path).history())
    assert kinds(LogReader(path).history()).count("idle") == 5


def test_the_size_is_bounded_and_the_newest_are_kept(path: Path) -> None:
    log = EventLog(path, file_bytes_max=1000)
    for number in range(1000):
        log.append({"event": "restarting", "number": number})
    files = list(path.parent.iterdir())
    assert len(files) == FILES_KEPT
    assert all(file.stat().st_size <= 1000 for file in files)
    numbers = [event["number"] for event in LogReader(path).history()]
    assert numbers == list(range(numbers[0], 1000))
    assert len(numbers) > 30


def test_following_survives_rotation_and_tells_everything_once(path: Path) -> None:
    log = EventLog(path, file_bytes_max=1000)
    log.append({"event": "restarting", "number": 0})
    reader = LogReader(path)
    assert len(reader.history()) == 1
    written = 1

    def write_some(_seconds: float) -> None:
        nonlocal written
        for _ in range(7):
            log.append({"event": "restarting", "number": written})
            written += 1

    read = []
    for event in reader.follow(write_some):
        read.append(event["number"])
        if len(read) == 200:
            break
    assert read == list(range(1, 201))


def test_following_begins_before_there_is_a_log(path: Path) -> None:
    reader = LogReader(path)
    assert reader.history() == []
    log = EventLog(path)
    assert next(reader.follow(lambda _seconds: log.append({"event": "starting"})))["event"] == "starting"


def test_a_line_that_was_cut_short_is_left_out(path: Path) -> None:
    log = EventLog(path)
    log.append({"event": "starting"})
    with path.open("a") as file:
        file.write('{"event": "sto\n' + json.dumps({"event": "stopped"}) + "\n" + '{"event": "half')
    assert kinds(LogReader(path).history()) == ["starting", "stopped"]


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file")
    EventLog(log_path(tmp_path / "logs", "p")).append({"event": "starting"})

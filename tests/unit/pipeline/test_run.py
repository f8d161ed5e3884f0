"""A run, as far as it goes without Spark: what a program shows of it."""

from __future__ import annotations

import io
import sys

import pytest

from penstock.pipeline.api import PipelinePlan
from penstock.pipeline.declaration.spec_file import parse_pipeline
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.run import PipelineRun
from penstock.pipeline.run_settings import RunSettings

PIPELINE = parse_pipeline("name: revenue\nsource: {topic: a}\nsink: {topic: b}\n", "p.yaml", {})
STARTED = {"event": "started", "pipeline": "revenue", "guarantee": "exactly_once", "checkpoint": "/cp"}
TOTAL = {"rows": 1200, "batches": 1, "dead_letters": 0, "dropped": 0}
PROGRESS = {
    "event": "progress", "pipeline": "revenue", "batch": 0, "rows": 1200, "batch_ms": 100, "lag": 0, "total": TOTAL,
    "lag_by_partition": {}, "dead_letters": 0, "dropped": 0, "watermark": None,
}  # fmt: skip


class Screen(io.StringIO):
    def __init__(self, *, is_terminal: bool) -> None:
        super().__init__()
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal


def run_on(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of a program that reports two events and fails."""

    def execute(self: PipelineRun, _plan: object, _origin: object, settings: RunSettings) -> None:
        settings.report(STARTED)
        settings.report(PROGRESS)
        raise PipelineFailed("it cannot go on")

    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(PipelineRun, "_execute", execute)
    with pytest.raises(PipelineFailed):
        PipelineRun(PIPELINE.spec).execute(PipelinePlan(PIPELINE.spec, PIPELINE.directory, once=True))


def test_a_program_shows_its_progress_to_a_person_and_leaves_the_screen_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    screen = Screen(is_terminal=True)
    run_on(screen, monkeypatch)
    assert "1,200" in screen.getvalue()
    # rich hides the cursor while it draws, and shows it again at the end.
    assert screen.getvalue().rfind("\x1b[?25h") > screen.getvalue().rfind("\x1b[?25l")


def test_a_program_that_no_person_looks_at_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(is_terminal=False)
    run_on(screen, monkeypatch)
    assert screen.getvalue() == ""

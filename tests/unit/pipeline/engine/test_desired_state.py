"""Desired states on disk: whole, private, and found again."""

from __future__ import annotations

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.pipeline.engine.desired_state import DesiredState, DesiredStates

REVENUE = DesiredState(
    name="revenue",
    spec={"name": "revenue", "sink": {"table": "t"}},
    settings={"checkpoint": None},
    directory="/pipelines",
    file="/pipelines/revenue.yaml",
    guarantee="exactly_once",
)


@pytest.fixture
def states(tmp_path: Path) -> DesiredStates:
    return DesiredStates(tmp_path / "engine" / "pipelines")


def test_what_is_put_is_loaded_again(states: DesiredStates) -> None:
    other = replace(REVENUE, name="a/b c", target="STOPPED", file=None)
    states.put(REVENUE)
    states.put(other)
    assert states.load() == ([other, REVENUE], [])
    assert states.get("a/b c") == other
    states.put(replace(REVENUE, target="STOPPED"))
    states.delete("a/b c")
    states.delete("unknown")
    assert states.load() == ([replace(REVENUE, target="STOPPED")], [])


def test_nobody_else_can_read_what_may_hold_passwords(states: DesiredStates, tmp_path: Path) -> None:
    states.put(REVENUE)
    [path] = (tmp_path / "engine" / "pipelines").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert "table" not in repr(REVENUE)


def test_a_crash_before_the_rename_leaves_the_state_before(
    states: DesiredStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    states.put(REVENUE)

    def crash(_descriptor: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(KeyboardInterrupt):
        states.put(replace(REVENUE, target="STOPPED"))
    assert states.load() == ([REVENUE], [])


@pytest.mark.parametrize("text", ["{", "[]", '{"name": "x"}', '{"name": 1, "spec": {}, "directory": "/"}'])
def test_a_file_that_is_no_desired_state_is_named_and_does_not_hide_the_others(
    states: DesiredStates, tmp_path: Path, text: str
) -> None:
    states.put(REVENUE)
    (tmp_path / "engine" / "pipelines" / "odd.json").write_text(text)
    loaded, [unreadable] = states.load()
    assert loaded == [REVENUE]
    assert unreadable.name == "odd"
    assert "odd.json" in unreadable.reason


def test_fields_of_a_newer_version_are_ignored() -> None:
    assert DesiredState.of_json({**REVENUE.as_json(), "zone": "x"}) == REVENUE

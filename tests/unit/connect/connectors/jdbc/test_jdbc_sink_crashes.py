"""Processes that write to a database and are killed with -9 at each step: nothing lost, nothing doubled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.pipeline import crash_points
from tests.unit.connect.connectors.jdbc.jdbc import query, sink_config

STEPS = ("staged", "before_ledger", "before_commit", "after_commit")
RECORDS = 6000
BATCH_ROWS = 2000  # too many for the message to the driver: they are staged
ROOT = Path(__file__).parents[5]


def killed_once(url: str, directory: Path, step: str, **properties: str) -> None:
    """Runs the sink until it has written everything; the first run is killed at a step."""
    config = dict(sink_config(url, auto_create="true", **properties))
    points = directory / "points"
    points.mkdir()
    (points / f"connect.jdbc.{step}").write_text(crash_points.SELF)
    environment = {**os.environ, crash_points.ENVIRONMENT_VARIABLE: str(points)}
    module = "tests.unit.connect.connectors.jdbc.sink_process"
    command = [sys.executable, "-m", module, json.dumps(config), str(directory), str(RECORDS), str(BATCH_ROWS)]
    first = subprocess.run(command, env=environment, cwd=ROOT, check=False, capture_output=True, text=True)
    assert first.returncode == -signal.SIGKILL, first.stderr
    assert (points / f"connect.jdbc.{step}.hit").exists()
    subprocess.run(command, env=environment, cwd=ROOT, check=True)


def counts(url: str) -> tuple[int, int]:
    ((rows, distinct),) = query(url, "SELECT count(*), count(DISTINCT id) FROM orders")
    return rows, distinct


@pytest.mark.parametrize(
    ("name", "step"),
    [
        pytest.param(name, step, marks=[] if (name, step) == ("sqlite", "before_commit") else [pytest.mark.slow])
        for name in ("sqlite", "postgresql", "mysql")
        for step in STEPS
    ],
)
def test_exactly_once_loses_and_repeats_nothing(
    new_database: Callable[[str], str], tmp_path: Path, name: str, step: str
) -> None:
    url = new_database(name)
    killed_once(url, tmp_path, step, guarantee="exactly_once")
    assert counts(url) == (RECORDS, RECORDS)
    assert staging_of(url) == []


def staging_of(url: str) -> list[str]:
    if url.startswith("sqlite"):
        path = Path(url.removeprefix("sqlite:///"))
        return [each.name for each in path.parent.iterdir() if "penstock-connect" in each.name]
    found = query(url, "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'penstock_staging%'")
    return [name for (name,) in found]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sqlite", "postgresql", "mysql"])
def test_at_least_once_repeats_the_batch_whose_position_was_not_written(
    new_database: Callable[[str], str], tmp_path: Path, name: str
) -> None:
    url = new_database(name)
    killed_once(url, tmp_path, "written", guarantee="at_least_once")
    assert counts(url) == (RECORDS + BATCH_ROWS, RECORDS)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sqlite", "postgresql", "mysql"])
def test_at_most_once_loses_the_batch_that_was_not_written(
    new_database: Callable[[str], str], tmp_path: Path, name: str
) -> None:
    url = new_database(name)
    killed_once(url, tmp_path, "before_write", guarantee="at_most_once")
    assert counts(url) == (RECORDS - BATCH_ROWS, RECORDS - BATCH_ROWS)

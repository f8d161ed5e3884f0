"""A slice of `make pipeline-kills`: some kills for each sink and guarantee. All of them take half an hour."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from penstock.testing.database_server import DatabaseMissingError
from tests.conftest import optional_part_missing
from tests.pipeline.kills.fault_plan import Fault, Victim
from tests.pipeline.kills.report import Report
from tests.pipeline.kills.scene import SINK_NAMES, SinkName, scene
from tests.pipeline.kills.soak import Soak, soak

KILLS = 6
SEED = 20_261_115

pytestmark = [pytest.mark.kills, pytest.mark.timeout(900)]


def slice_of(sink: SinkName, guarantee: str, kills: int, directory: Path, capsys: pytest.CaptureFixture[str]) -> Report:
    try:
        report = soak(sink, guarantee, kills=kills, seed=SEED, directory=directory)
    except DatabaseMissingError as missing:
        optional_part_missing(str(missing))
    with capsys.disabled():
        print("\n" + "\n".join(report.lines()))
    return report


@pytest.mark.parametrize("sink", SINK_NAMES)
def test_exactly_once_loses_and_repeats_nothing(
    sink: SinkName, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = slice_of(sink, "exactly_once", KILLS, tmp_path, capsys)
    assert report.holds, "\n".join(report.lines())
    assert report.kills.total() == KILLS
    # The kills came at moments that matter, or the above would prove nothing.
    assert report.in_window >= KILLS // 3


def test_rows_that_land_in_an_open_transaction_count_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Everybody who has to do with it dies while rows come in; a task also behind its own, and Spark runs it again."""
    deaths: list[tuple[Victim, str]] = [
        ("worker", "table.staged"),
        *((victim, "table.landing") for victim in get_args(Victim) if victim != "broker"),
    ]
    plan = [Fault(victim, step, early=False, after_s=0.0, down_s=0.0) for victim, step in deaths]
    try:
        with scene(tmp_path, "table-postgresql", "exactly_once") as made:
            report = Soak(made, Report("table-postgresql", "exactly_once", SEED)).run(plan)
    except DatabaseMissingError as missing:
        optional_part_missing(str(missing))
    with capsys.disabled():
        print("\n" + "\n".join(report.lines()))
    assert report.holds, "\n".join(report.lines())
    assert report.steps == {"table.staged": 1, "table.landing": len(plan) - 1}


@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
@pytest.mark.parametrize("sink", SINK_NAMES)
def test_a_weaker_guarantee_shows_its_weakness(
    sink: SinkName, guarantee: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kill in its window makes at_least_once repeat and at_most_once lose, and neither does the other."""
    report = slice_of(sink, guarantee, 1, tmp_path, capsys)
    assert report.holds, "\n".join(report.lines())

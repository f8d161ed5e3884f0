from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from penstock.bench.figures import Spread, show
from penstock.bench.measurements.log_growth import LogGrowth
from penstock.bench.metric import Metric, Readings, Target, Unit
from penstock.bench.plot import draw
from penstock.bench.results import Results, section
from penstock.bench.sizes import QUICK
from penstock.bench.table import print_table
from tests.unit.bench.fakes import empty_results

PNG_SIGNATURE = b"\x89PNG"


def results_with(ours: float, theirs: float | None) -> Results:
    results = empty_results(rounds=1)
    if theirs is None:
        del results.contestants["apache-kafka"]
    metrics = [
        Metric("rate", "produce", Unit.MESSAGES_PER_SECOND, Target(ratio_at_least=1.0)),
        Metric("cpu", "· broker CPU", Unit.CPU_SECONDS_PER_GB, Target(ratio_at_most=0.5)),
    ]
    rounds: dict[str, list[Readings]] = {"penstock": [{"rate": ours, "cpu": 1.0}]}
    if theirs is not None:
        rounds["apache-kafka"] = [{"rate": theirs, "cpu": 4.0}]
    results.sections.append(section("throughput", "Throughput", metrics, rounds))
    return results


def printed(results: Results) -> str:
    out = io.StringIO()
    print_table(results, Console(file=out, width=200))
    return out.getvalue()


@pytest.mark.parametrize(
    ("spread", "unit", "text"),
    [
        (Spread(1_140_000, 990_000, 1_200_000), Unit.MESSAGES_PER_SECOND, "1.14 M/s (0.99-1.20)"),
        (Spread(52_000_000, 51_500_000, 130_000_000), Unit.BYTES, "52.0 MB (51.5-130)"),
        (Spread(0.0421, 0.0, 0.25), Unit.MILLISECONDS, "0.042 ms (0.00-0.25)"),
        (Spread(1234.0, 1000.0, 2000.0), Unit.SECONDS, "1,234 s (1,000-2,000)"),
    ],
)
def test_figures_share_one_unit(spread: Spread, unit: Unit, text: str) -> None:
    assert show(spread, unit) == text


def test_a_missed_target_is_marked() -> None:
    lines = printed(results_with(ours=900_000, theirs=1_000_000)).splitlines()
    (rate,) = [line for line in lines if "produce" in line]
    (cpu,) = [line for line in lines if "broker CPU" in line]
    assert "0.90x" in rate
    assert "MISSED" in rate
    assert "0.25x" in cpu
    assert "met" in cpu
    assert "1 of 2 targets met" in lines


def test_a_target_within_the_spread_is_named() -> None:
    results = empty_results(rounds=2)
    metric = Metric("rate", "produce", Unit.MESSAGES_PER_SECOND, Target(ratio_at_least=1.0))
    rounds: dict[str, list[Readings]] = {
        "penstock": [{"rate": 90}, {"rate": 120}],
        "apache-kafka": [{"rate": 100}, {"rate": 100}],
    }
    results.sections.append(section("throughput", "Throughput", [metric], rounds))
    lines = printed(results).splitlines()
    assert any("produce" in line and "no difference shown" in line for line in lines)
    assert "0 of 1 targets met, 0 missed, 1 within the spread of the rounds" in lines


@pytest.mark.parametrize("rates", [(90, 120), (110, 120), (80, 90)])
def test_every_verdict_can_be_drawn(tmp_path: Path, rates: tuple[int, int]) -> None:
    results = empty_results(rounds=2)
    metric = Metric("rate", "produce", Unit.MESSAGES_PER_SECOND, Target(ratio_at_least=1.0))
    rounds: dict[str, list[Readings]] = {
        "penstock": [{"rate": rate} for rate in rates],
        "apache-kafka": [{"rate": 100}, {"rate": 100}],
    }
    results.sections.append(section("throughput", "Throughput", [metric], rounds))
    assert [file.name for file in draw(results, tmp_path)] == ["ratios.png"]


def test_alone_nothing_is_judged_by_a_ratio() -> None:
    text = printed(results_with(ours=900_000, theirs=None))
    assert "not judged" in text
    assert "ratio" not in text
    assert "0 of 0 targets met" in text


def test_failures_and_notes_are_printed_in_a_line_each() -> None:
    results = results_with(ours=1, theirs=1)
    results.notes.append("no room [here]")
    results.failures.append("start, round 1/5, Penstock: ended\n  Traceback\n  KeyError: 'x'")
    lines = printed(results).splitlines()
    assert "note no room [here]" in lines
    assert "failed start, round 1/5, Penstock: ended ... KeyError: 'x'" in lines


def test_plots(tmp_path: Path) -> None:
    results = results_with(ours=2_000_000, theirs=1_000_000)
    growth = LogGrowth(QUICK)
    readings = {metric.key: 1.0 for metric in growth.metrics}
    rounds: dict[str, list[Readings]] = {"penstock": [readings], "apache-kafka": [readings]}
    results.sections.append(section(growth.name, growth.title, growth.metrics, rounds))
    files = draw(results, tmp_path)
    assert [file.name for file in files] == ["ratios.png", "growth.png"]
    assert all(file.read_bytes().startswith(PNG_SIGNATURE) for file in files)


def test_without_a_peer_there_are_no_ratios_to_draw(tmp_path: Path) -> None:
    assert draw(results_with(ours=1, theirs=None), tmp_path) == []

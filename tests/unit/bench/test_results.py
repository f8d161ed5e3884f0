from __future__ import annotations

import json

import pytest

from penstock.bench.figures import Spread
from penstock.bench.metric import Metric, Readings, Target, Unit
from penstock.bench.results import Row, Verdict, judge, section
from tests.unit.bench.fakes import empty_results

START = Target(ratio_at_most=0.2, value_below=0.4)


def row(target: Target | None, ours: list[float], theirs: list[float]) -> Row:
    metric = Metric("m", "m", Unit.SECONDS, target)
    rounds: dict[str, list[Readings]] = {
        "penstock": [{"m": value} for value in ours],
        "apache-kafka": [{"m": value} for value in theirs],
    }
    return section("s", "S", [metric], rounds).rows[0]


@pytest.mark.parametrize(
    ("target", "value", "ratio", "verdict"),
    [
        (None, 1.0, 1.0, Verdict.NO_TARGET),
        (Target(ratio_at_least=1.0), 5.0, 1.0, Verdict.MET),
        (Target(ratio_at_least=1.0), 5.0, 0.999, Verdict.MISSED),
        (Target(ratio_at_most=0.5), 5.0, 0.5, Verdict.MET),
        (Target(ratio_at_most=0.5), 5.0, 0.501, Verdict.MISSED),
        (Target(value_at_most=1.5), 1.5, None, Verdict.MET),
        (Target(value_at_most=1.5), 1.51, None, Verdict.MISSED),
        (Target(value_below=2.0), 2.0, None, Verdict.MISSED),
        (Target(value_below=2.0), 1.99, None, Verdict.MET),
        (Target(value_below=2.0), None, None, Verdict.UNJUDGED),
        (START, 0.3, 0.1, Verdict.MET),
        (START, 0.4, 0.1, Verdict.MISSED),
        (START, 0.3, 0.3, Verdict.MISSED),
        (START, 0.3, None, Verdict.UNJUDGED),
        (START, 0.5, None, Verdict.MISSED),  # the half that can be judged is enough to miss it
    ],
)
def test_verdicts(target: Target | None, value: float | None, ratio: float | None, verdict: Verdict) -> None:
    assert judge(target, exactly(value), exactly(ratio)) is verdict


def exactly(figure: float | None) -> Spread | None:
    return None if figure is None else Spread(figure, figure, figure)


@pytest.mark.parametrize(
    ("low", "median", "high", "verdict"),
    [
        (1.01, 1.1, 1.2, Verdict.MET),
        (1.0, 1.1, 1.2, Verdict.MET),
        (0.99, 1.1, 1.2, Verdict.NO_DIFFERENCE),
        (0.8, 0.9, 1.0, Verdict.NO_DIFFERENCE),
        (0.8, 0.9, 0.99, Verdict.MISSED),
    ],
)
def test_a_target_within_the_spread_of_the_rounds_is_not_judged(
    low: float, median: float, high: float, verdict: Verdict
) -> None:
    assert judge(Target(ratio_at_least=1.0), None, Spread(median, low, high)) is verdict


def test_a_value_within_the_spread_of_the_rounds_is_not_judged() -> None:
    wide = Spread(1.9, 1.8, 2.1)
    assert judge(Target(value_below=2.0), wide, None) is Verdict.NO_DIFFERENCE
    assert judge(Target(value_below=2.0, ratio_at_most=0.5), wide, exactly(0.6)) is Verdict.MISSED
    assert judge(Target(value_below=2.0, ratio_at_most=0.5), wide, None) is Verdict.UNJUDGED
    assert judge(Target(value_below=2.0, ratio_at_most=0.5), wide, exactly(0.4)) is Verdict.NO_DIFFERENCE


def test_the_ratio_is_of_the_medians_and_its_range_is_of_the_pairs() -> None:
    result = row(Target(ratio_at_least=1.0), ours=[10, 30, 20], theirs=[10, 10, 40])
    assert result.ratio == Spread(median=20 / 10, low=0.5, high=3.0)
    assert result.verdict is Verdict.NO_DIFFERENCE


def test_rounds_without_a_partner_do_not_enter_the_ratio() -> None:
    result = row(None, ours=[2.0], theirs=[1.0, 100.0])
    assert result.ratio == Spread(2.0, 2.0, 2.0)
    assert result.spread("apache-kafka") == Spread(50.5, 1.0, 100.0)


def test_a_contestant_without_readings_gives_no_ratio_and_no_verdict() -> None:
    result = row(Target(ratio_at_least=1.0), ours=[1.0], theirs=[])
    assert result.ratio is None
    assert result.verdict is Verdict.UNJUDGED
    assert result.spread("apache-kafka") is None


def test_a_peer_that_used_nothing_gives_no_ratio() -> None:
    assert row(None, ours=[0.1], theirs=[0.0]).ratio is None


def test_the_json_keeps_every_round() -> None:
    results = empty_results(rounds=2)
    metric = Metric("m", "· m", Unit.BYTES, Target(ratio_at_most=0.2))
    rounds: dict[str, list[Readings]] = {"penstock": [{"m": 1.0}, {"m": 3.0}], "apache-kafka": [{"m": 10}, {"m": 30}]}
    results.sections.append(section("s", "S", [metric], rounds))
    read_back = json.loads(json.dumps(results.as_json()))
    (one,) = read_back["sections"][0]["rows"]
    assert one["title"] == "m"
    assert one["unit"] == "bytes"
    assert one["target"] == "≤ 0.2x"
    assert one["figures"]["penstock"] == {"median": 2.0, "low": 1.0, "high": 3.0, "rounds": [1.0, 3.0]}
    assert one["ratio"] == {"median": 0.1, "low": 0.1, "high": 0.1}
    assert one["verdict"] == "met"

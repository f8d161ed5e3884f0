from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from penstock.bench.measurement import MeasurementError
from penstock.bench.results import Results
from penstock.bench.runner import run
from tests.unit.bench.fakes import METRIC, FakeMeasurement, SilentProgress, contestant, empty_results

A, B = contestant("apache-kafka"), contestant("penstock")


def take_all(
    measurement: FakeMeasurement,
    rounds: int,
    warm_up: FakeMeasurement | None = None,
    short_rounds: Mapping[str, int] | None = None,
) -> Results:
    results = empty_results(rounds)
    run(
        measurements=[measurement],
        warm_up=lambda _name: warm_up or measurement,
        contestants=[A, B],
        results=results,
        data_parent=Path("unused"),
        progress=SilentProgress(),
        short_rounds=short_rounds,
    )
    return results


def test_contestants_swap_their_order_and_the_first_round_is_discarded() -> None:
    measurement = FakeMeasurement(lambda _name, turn: float(turn))
    results = take_all(measurement, rounds=2)
    assert measurement.turns == ["apache-kafka", "penstock", "penstock", "apache-kafka", "apache-kafka", "penstock"]
    (row,) = results.rows()
    assert row.readings == {"apache-kafka": (3.0, 4.0), "penstock": (2.0, 5.0)}
    assert results.failures == []


def test_a_measurement_may_make_short_rounds() -> None:
    measurement = FakeMeasurement(lambda _name, turn: float(turn))
    results = take_all(measurement, rounds=2, short_rounds={measurement.name: 3})
    assert len(measurement.turns) == 2 + 2 * 6
    assert len(results.rows()[0].readings["penstock"]) == 6


def test_the_discarded_round_may_be_of_another_size() -> None:
    warm_up, measurement = FakeMeasurement(lambda *_: -1.0), FakeMeasurement(lambda *_: 1.0)
    take_all(measurement, rounds=3, warm_up=warm_up)
    assert len(warm_up.turns) == 2
    assert len(measurement.turns) == 6


@pytest.mark.parametrize("failure", [MeasurementError("lost a record"), OSError("gone"), RuntimeError("not started")])
def test_a_contestant_that_fails_is_out_and_the_other_goes_on(failure: Exception) -> None:
    def take(name: str, turn: int) -> float:
        if name == "penstock" and turn > 1:
            raise failure
        return 1.0

    measurement = FakeMeasurement(take)
    results = take_all(measurement, rounds=3)
    assert measurement.turns.count("penstock") == 2
    assert results.rows()[0].readings == {"apache-kafka": (1.0, 1.0, 1.0)}
    assert results.failures == [f"fake, round 1/3, Penstock: {failure}"]


def test_a_bug_of_the_benchmark_is_not_taken_for_a_failing_broker() -> None:
    def take(_name: str, _turn: int) -> float:
        raise KeyError(METRIC.key)

    with pytest.raises(KeyError):
        take_all(FakeMeasurement(take), rounds=1)


def test_an_interrupted_benchmark_keeps_its_whole_rounds() -> None:
    def take(_name: str, turn: int) -> float:
        if turn == 4:
            raise KeyboardInterrupt
        return float(turn)

    results = empty_results(rounds=5)
    with pytest.raises(KeyboardInterrupt):
        run(
            measurements=[measurement := FakeMeasurement(take)],
            warm_up=lambda _name: measurement,
            contestants=[A, B],
            results=results,
            data_parent=Path("unused"),
            progress=SilentProgress(),
        )
    assert results.rows()[0].readings == {"apache-kafka": (3.0,), "penstock": (2.0,)}

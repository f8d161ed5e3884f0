from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from penstock.bench.catalogue import CATALOGUE, OF_ENGINES
from penstock.bench.main import _possible, _requested, arguments_parser
from penstock.bench.measurements.spark_growth import SparkGrowth
from penstock.bench.measurements.spark_latency import _key, _with_counterparts
from penstock.bench.metric import Metric, Readings, Target, Unit
from penstock.bench.peers import PENSTOCK, STOCK_SPARK
from penstock.bench.plot import draw
from penstock.bench.results import Verdict, section
from penstock.bench.sizes import FULL, QUICK
from penstock.bench.spark import tables
from penstock.bench.spark.rows_per_second import Flow, engine_of
from penstock.bench.spark.workload import Engine
from tests.unit.bench.fakes import contestant, empty_results


def test_spark_is_a_word_for_all_of_them() -> None:
    only = arguments_parser().parse_args(["--only", "start", "spark"]).only
    assert _requested(only) == ["start", *(name for name in CATALOGUE if name in OF_ENGINES)]
    assert _requested(None) == list(CATALOGUE)


def test_without_postgresql_only_its_row_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "absence", lambda: "PostgreSQL is not installed: apt install postgresql")
    names, notes = _possible(["spark-copy", "spark-table"])
    assert names == ["spark-copy"]
    assert notes == ["spark-table was not measured: PostgreSQL is not installed: apt install postgresql"]
    assert _possible(["spark-copy"]) == (["spark-copy"], [])


def test_engines_are_compared_by_the_contestants_names() -> None:
    assert engine_of(contestant(PENSTOCK)) is Engine.PENSTOCK
    assert engine_of(contestant(STOCK_SPARK)) is Engine.STOCK


def test_the_ratio_is_to_whoever_else_took_part() -> None:
    metric = Metric("m", "m", Unit.ROWS_PER_SECOND, Target(ratio_at_least=1.5))
    rounds: dict[str, list[Readings]] = {STOCK_SPARK: [{"m": 2.0}], PENSTOCK: [{"m": 3.0}]}
    found = section("s", "S", [metric], rounds)
    assert found.contestants == (PENSTOCK, STOCK_SPARK)
    assert found.rows[0].ratio is not None
    assert (found.rows[0].ratio.median, found.rows[0].verdict) == (1.5, Verdict.MET)


def test_a_figure_of_ours_alone_is_judged_without_the_other_side() -> None:
    metric = Metric("second", "a second pipeline", Unit.SECONDS, Target(value_below=2.0), ours_alone=True)
    rounds: dict[str, list[Readings]] = {STOCK_SPARK: [{"cold": 20.0}], PENSTOCK: [{"cold": 9.0, "second": 1.5}]}
    (row,) = section("s", "S", [metric], rounds).rows
    assert row.readings == {PENSTOCK: (1.5,)}
    assert row.verdict is Verdict.MET
    with pytest.raises(KeyError):
        section("s", "S", [dataclasses.replace(metric, ours_alone=False)], rounds)


def test_what_stock_spark_does_not_offer_is_compared_with_what_it_does() -> None:
    names = ("one.p50", "steady.p50", "steady.p99")
    stock = {_key("at_least_once", what): float(number) for number, what in enumerate(names)}
    assert _with_counterparts(stock) == {
        _key(guarantee, what): float(number)
        for guarantee in ("at_least_once", "exactly_once")
        for number, what in enumerate(names)
    }
    both = {**stock, **{_key("exactly_once", what): 9.0 for what in names}}
    assert _with_counterparts(both) == both


@pytest.mark.parametrize(("row_bytes", "label"), [(100, "100 B"), (1024, "1 KB")])
def test_rows_are_named_by_their_size(row_bytes: int, label: str) -> None:
    assert Flow(row_bytes, into="noop").label == label


@pytest.mark.parametrize("name", sorted(OF_ENGINES))
def test_every_spark_measurement_knows_its_disk_and_its_targets(name: str) -> None:
    measurement = CATALOGUE[name](FULL)
    assert measurement.name == name
    assert measurement.disk_bytes > 0
    assert all(metric.target for metric in measurement.metrics) == (name != "spark-growth")


def test_growth_is_drawn(tmp_path: Path) -> None:
    measurement = SparkGrowth(QUICK)
    results = empty_results(rounds=1)
    results.contestants = {PENSTOCK: "Penstock", STOCK_SPARK: "Spark"}
    readings: Readings = {metric.key: 5.0 for metric in measurement.metrics}
    rounds: dict[str, list[Readings]] = {PENSTOCK: [readings], STOCK_SPARK: [readings]}
    results.sections.append(section(measurement.name, measurement.title, measurement.metrics, rounds))
    assert tmp_path / "spark-growth.png" in draw(results, tmp_path)

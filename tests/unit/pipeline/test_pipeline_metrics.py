from __future__ import annotations

from typing import Any

from penstock.core.exposition import lines
from penstock.core.metrics import Metrics
from penstock.pipeline.pipeline_metrics import PipelineMetrics
from penstock.pipeline.run_settings import Event
from tests.exposition import Exposition
from tests.metrics_page import check_page

STARTED = {"event": "started", "pipeline": "p", "guarantee": "exactly_once", "checkpoint": "c"}


def progress(**changes: Any) -> Event:
    event = {
        "event": "progress",
        "pipeline": "p",
        "batch": 0,
        "rows": 10,
        "rows_written": 7,
        "batch_ms": 200,
        "lag": 5,
        "lag_by_partition": {"orders": {"0": 2, "1": 3}},
        "dead_letters": 2,
        "dropped": 1,
        "total": {"rows": 10, "batches": 1, "dead_letters": 2, "dropped": 1},
    }
    return {**event, **changes}


def figures_after(*events: Event, statuses: list[dict[str, Any]] | None = None) -> Exposition:
    metrics = Metrics()
    figures = PipelineMetrics(metrics, None if statuses is None else lambda: statuses)
    for event in events:
        figures.apply(event)
    return Exposition("".join(lines(metrics)))


def test_rows_batches_dead_letters_and_lag() -> None:
    figures = figures_after(
        STARTED, progress(), progress(batch=1, rows_written=8, lag_by_partition={"orders": {"0": 4}})
    )
    labels = {"pipeline": "p", "sink": ""}
    assert figures.value("penstock_pipeline_rows_read_total", **labels) == 20
    assert figures.value("penstock_pipeline_rows_written_total", **labels) == 15
    assert figures.value("penstock_pipeline_deadletters_total", **labels) == 4
    assert figures.value("penstock_pipeline_dropped_rows_total", **labels) == 2
    assert figures.value("penstock_pipeline_restarts_total", **labels) == 0
    assert figures.value("penstock_pipeline_batch_seconds_count", **labels) == 2
    assert figures.value("penstock_pipeline_batch_seconds_sum", **labels) == 0.4
    assert figures.value("penstock_pipeline_last_batch_timestamp_seconds", **labels) > 1_000_000_000
    lag = figures.values("penstock_pipeline_lag")
    assert {tuple(sorted(labels)): value for labels, value in lag.items()} == {
        (("partition", "0"), ("pipeline", "p"), ("sink", ""), ("topic", "orders")): 4
    }


def test_each_sink_has_its_own() -> None:
    started = {**STARTED, "sinks": ["table", "files"]}
    figures = figures_after(
        started, progress(sink="table"), {"event": "restarting", "pipeline": "p", "sink": "files", "reason": "away"}
    )
    assert figures.value("penstock_pipeline_rows_read_total", pipeline="p", sink="table") == 10
    assert figures.value("penstock_pipeline_rows_read_total", pipeline="p", sink="files") == 0
    assert figures.value("penstock_pipeline_restarts_total", pipeline="p", sink="files") == 1


def test_a_sink_of_which_spark_tells_no_rows() -> None:
    figures = figures_after(STARTED, progress(rows_written=None))
    assert figures.value("penstock_pipeline_rows_written_total", pipeline="p", sink="") == 0
    assert figures.value("penstock_pipeline_rows_read_total", pipeline="p", sink="") == 10


def test_one_state_is_1_and_the_others_are_0() -> None:
    figures = figures_after(STARTED)
    states = {dict(labels)["state"]: value for labels, value in figures.values("penstock_pipeline_state").items()}
    assert states == {"UNASSIGNED": 0, "STARTING": 0, "RUNNING": 1, "RESTARTING": 0, "FAILED": 0, "STOPPED": 0}
    failed = figures_after(STARTED, {"event": "failed", "pipeline": "p", "reason": "no table"})
    assert failed.value("penstock_pipeline_state", pipeline="p", state="FAILED") == 1


def test_an_engine_tells_the_states_and_a_pipeline_that_is_gone_has_no_lag() -> None:
    statuses = [{"name": "kept", "state": "STOPPED"}]
    figures = figures_after(STARTED, progress(), progress(pipeline="kept"), statuses=statuses)
    assert figures.value("penstock_pipeline_state", pipeline="kept", state="STOPPED") == 1
    assert {dict(labels)["pipeline"] for labels in figures.values("penstock_pipeline_lag")} == {"kept"}
    assert {dict(labels)["pipeline"] for labels in figures.values("penstock_pipeline_state")} == {"kept"}


def test_the_documentation_lists_what_is_served() -> None:
    metrics = Metrics()
    metrics.gauge("penstock_broker_scrape_success", "1 if the figures of the broker are here, too.")  # of penstock up
    figures = PipelineMetrics(metrics)
    for event in (STARTED, progress()):
        figures.apply(event)
    check_page("Pipelines", Exposition("".join(lines(metrics))))

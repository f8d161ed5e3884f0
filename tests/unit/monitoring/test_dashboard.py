"""docs/grafana-dashboard.json: what Grafana's import wants, and no metric that is not served.

docs/metrics.md is compared with what a broker and a pipeline serve (tests/integration/broker/test_metrics.py,
tests/unit/pipeline/test_pipeline_metrics.py), so that the page stands for them here.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.metrics_page import DOCS, documented

DASHBOARD: dict[str, Any] = json.loads((DOCS / "grafana-dashboard.json").read_text())
PANELS: list[dict[str, Any]] = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
DATASOURCE = {"type": "prometheus", "uid": "${DS_PROMETHEUS}"}
# Of PromQL, before a parenthesis or as a word between expressions.
PROMQL = {"sum", "max", "by", "rate", "increase", "histogram_quantile", "label_values"}


def metrics_in(expression: str) -> set[str]:
    """The names of an expression, without its label matchers, ranges and groupings."""
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|by \([^)]*\)", "", expression)
    return set(re.findall(r"[a-z_]{3,}", bare)) - PROMQL


def test_the_names_of_an_expression_are_found() -> None:
    expression = 'histogram_quantile(0.99, sum by (le) (rate(a_seconds_bucket{x="y"}[$__rate_interval]))) > b_total'
    assert metrics_in(expression) == {"a_seconds_bucket", "b_total"}


def test_the_import_asks_for_a_data_source() -> None:
    (wanted,) = DASHBOARD["__inputs"]
    assert wanted["name"] == "DS_PROMETHEUS"
    assert (wanted["type"], wanted["pluginId"]) == ("datasource", "prometheus")
    assert DASHBOARD["id"] is None  # a number would replace a dashboard of that Grafana
    assert DASHBOARD["title"] == "Penstock"
    assert DASHBOARD["schemaVersion"] >= 36
    assert {each["id"] for each in DASHBOARD["__requires"]} == {"grafana", "prometheus", "timeseries", "stat"}


def test_panels_have_places_and_ids_of_their_own() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        own = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not own & cells, panel["title"]
        cells |= own


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: str(panel["title"]))
def test_a_panel_shows_metrics_that_are_served(panel: dict[str, Any]) -> None:
    assert panel["type"] in ("timeseries", "stat")
    assert panel["datasource"] == DATASOURCE
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["targets"]
    served = {
        name + suffix
        for name, metric in (documented("Broker") | documented("Pipelines")).items()
        for suffix in (("_bucket", "_sum", "_count") if metric.type == "histogram" else ("",))
    }
    for target in panel["targets"]:
        assert target["datasource"] == DATASOURCE
        names = metrics_in(target["expr"])
        assert names, target["expr"]
        assert names <= served, names - served
    assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


@pytest.mark.parametrize("metric", ["kafka_consumergroup_lag", "penstock_transactions_hanging", "kafka_log_log_size"])
def test_what_must_be_seen_is_there(metric: str) -> None:
    shown = {name for panel in PANELS for target in panel["targets"] for name in metrics_in(target["expr"])}
    assert metric in shown

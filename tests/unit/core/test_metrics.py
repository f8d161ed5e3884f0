from __future__ import annotations

import pytest

from penstock.core.metrics import Metrics, Sample


def test_the_same_name_and_labels_are_the_same_metric() -> None:
    metrics = Metrics()
    one = metrics.counter("requests_total", "Requests.", request="Produce")
    one.value += 2
    assert metrics.counter("requests_total", "Requests.", request="Produce") is one
    assert metrics.counter("requests_total", "Requests.", request="Fetch") is not one
    assert list(metrics.samples()) == [
        Sample("requests_total", {"request": "Produce"}, 2),
        Sample("requests_total", {"request": "Fetch"}, 0),
    ]
    assert metrics.value("requests_total", request="Produce") == 2
    assert metrics.value("requests_total", request="Metadata") == 0


def test_a_histogram_counts_each_observation_up_to_the_bounds_that_hold_it() -> None:
    metrics = Metrics()
    histogram = metrics.histogram("seconds", "Times.", bounds=(0.1, 1.0))
    histogram.observe(0.0625)
    histogram.observe(0.5, times=3)
    histogram.observe(7)
    assert histogram.count == 5
    assert list(metrics.samples()) == [
        Sample("seconds_bucket", {"le": "0.1"}, 1),
        Sample("seconds_bucket", {"le": "1.0"}, 4),
        Sample("seconds_bucket", {"le": "+Inf"}, 5),
        Sample("seconds_sum", {}, 8.5625),
        Sample("seconds_count", {}, 5),
    ]


def test_a_gauge_that_reads_is_asked_when_samples_are() -> None:
    metrics = Metrics()
    values = {"a": 1.0}
    metrics.gauge_reader("log_end", "Ends.", lambda: [({"topic": name}, value) for name, value in values.items()])
    values["b"] = 2.0
    assert list(metrics.samples()) == [Sample("log_end", {"topic": "a"}, 1), Sample("log_end", {"topic": "b"}, 2)]


def test_what_is_removed_is_not_sampled() -> None:
    metrics = Metrics()
    metrics.gauge("size", "Sizes.", topic="a").value = 7
    metrics.remove("size", topic="a")
    metrics.remove("unknown")
    assert list(metrics.samples()) == []
    assert [family.name for family in metrics.families()] == ["size"]


def test_one_name_has_one_kind_and_one_set_of_labels() -> None:
    metrics = Metrics()
    metrics.counter("requests_total", "Requests.", request="Produce")
    with pytest.raises(AssertionError, match="requests_total is a Counter"):
        metrics.gauge("requests_total", "Requests.", request="Produce")
    with pytest.raises(AssertionError, match="requests_total has other labels"):
        metrics.counter("requests_total", "Requests.", topic="a")

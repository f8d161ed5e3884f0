from __future__ import annotations

import pytest

from penstock.core.exposition import lines
from penstock.core.metrics import Metrics
from tests.exposition import Exposition


def text_of(metrics: Metrics) -> str:
    return "".join(lines(metrics))


def test_families_with_help_type_and_samples() -> None:
    metrics = Metrics()
    metrics.counter("requests_total", "Requests.", request="Produce").value += 2
    metrics.gauge("open", "Open ones.").value = 1.5
    metrics.histogram("seconds", "Times.", bounds=(0.1, 1.0)).observe(0.5)
    assert text_of(metrics).splitlines() == [
        "# HELP requests_total Requests.",
        "# TYPE requests_total counter",
        'requests_total{request="Produce"} 2',
        "# HELP open Open ones.",
        "# TYPE open gauge",
        "open 1.5",
        "# HELP seconds Times.",
        "# TYPE seconds histogram",
        'seconds_bucket{le="0.1"} 0',
        'seconds_bucket{le="1.0"} 1',
        'seconds_bucket{le="+Inf"} 1',
        "seconds_sum 0.5",
        "seconds_count 1",
    ]


@pytest.mark.parametrize("value", ['a"b', "a\\b", "a\nb", "\\n", "ä€🜁", "a{b},c=d", ""])
def test_a_label_value_survives_the_escapes(value: str) -> None:
    metrics = Metrics()
    metrics.gauge("open", "Open\nones \\ here.", group=value, topic="t").value = 7
    read = Exposition(text_of(metrics))
    assert read.value("open", group=value, topic="t") == 7
    assert read.families["open"].help == r"Open\nones \\ here."


@pytest.mark.parametrize(
    ("value", "text"),
    [(3, "3"), (3.0, "3"), (0.25, "0.25"), (1e-9, "1e-09"), (float("inf"), "+Inf"), (float("-inf"), "-Inf")],
)
def test_numbers(value: float, text: str) -> None:
    metrics = Metrics()
    metrics.gauge("figure", "A figure.").value = value
    assert text_of(metrics).endswith(f"figure {text}\n")
    assert Exposition(text_of(metrics)).value("figure") == value


def test_a_figure_that_is_no_number() -> None:
    metrics = Metrics()
    metrics.gauge("figure", "A figure.").value = float("nan")
    assert text_of(metrics).endswith("figure NaN\n")


def test_work_without_a_result_is_an_empty_line() -> None:
    metrics = Metrics()
    metrics.gauge_reader("open", "Open ones.", lambda: [None, None, ({}, 3)])
    assert list(lines(metrics))[2:] == ["", "", "open 3\n"]
    assert metrics.value("open") == 3


def test_what_comes_and_goes_between_two_lines_harms_nothing() -> None:
    metrics = Metrics()
    for topic in "abc":
        metrics.gauge("size", "Sizes.", topic=topic).value = 1
    read = []
    for number, line in enumerate(lines(metrics)):
        read.append(line)
        metrics.remove("size", topic="a")
        metrics.gauge("size", "Sizes.", topic=f"new{number}")
        metrics.counter(f"new{number}_total", "New.")
    assert Exposition("".join(read)).value("size", topic="c") == 1


@pytest.mark.parametrize(
    "text",
    [
        "open 1\n",
        "# HELP open Open.\n# TYPE open gauge\nopen one\n",
        "# HELP open Open.\n# TYPE open gauge\nopen 1\nopen 2\n",
        "# HELP open Open.\n# TYPE open counter\nopen 1\n",
        '# HELP open Open.\n# TYPE open gauge\nopen{a="b"c"} 1\n',
        '# HELP s Open.\n# TYPE s histogram\ns_bucket{le="1"} 2\ns_bucket{le="+Inf"} 1\ns_sum 1\ns_count 1\n',
        '# HELP s Open.\n# TYPE s histogram\ns_bucket{le="1"} 1\ns_bucket{le="+Inf"} 2\ns_sum 1\ns_count 1\n',
        "# HELP open Open.\n# TYPE open gauge\nopen 1",
    ],
)
def test_the_reader_refuses_what_is_not_well_formed(text: str) -> None:
    with pytest.raises(AssertionError):
        Exposition(text)

"""Metrics in Prometheus' text format, version 0.0.4.

Owns: the format, its escapes, and that every line is a small unit of work, so that an event loop can stop between any
two of them. Must not know: who asks, and how the text travels.

Invariant: HELP and TYPE of a family come once, before its samples, and all samples of a family are together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from penstock.core.metrics import Counter, CounterReader, Family, Gauge, GaugeReader, Histogram, Labels, Metric, Metrics

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

_TYPES: Final[dict[type[Metric], str]] = {
    Counter: "counter",
    CounterReader: "counter",
    Gauge: "gauge",
    GaugeReader: "gauge",
    Histogram: "histogram",
}
_HELP_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n"})
_VALUE_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def type_of(family: Family) -> str:
    return _TYPES[family.kind]


def lines(metrics: Metrics) -> Iterator[str]:
    """Each with its newline. An empty one is work that a reader did without a result."""
    for family in metrics.families():
        yield f"# HELP {family.name} {family.help.translate(_HELP_ESCAPES)}\n"
        yield f"# TYPE {family.name} {type_of(family)}\n"
        for metric in tuple(family.metrics.values()):
            for sample in metric.samples(family.name):
                yield "" if sample is None else f"{sample.name}{_labels(sample.labels)} {_number(sample.value)}\n"


def _labels(labels: Labels) -> str:
    if not labels:
        return ""
    return "{" + ",".join([f'{name}="{value.translate(_VALUE_ESCAPES)}"' for name, value in labels.items()]) + "}"


def _number(value: float) -> str:
    if isinstance(value, int):
        return str(int(value))  # a bool is one, too
    if math.isfinite(value):
        return str(int(value)) if value.is_integer() else repr(value)
    return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")

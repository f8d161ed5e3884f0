"""Medians, spread and percentiles of figures, and their text in reports. Pure arithmetic."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from penstock.bench.metric import Unit

_SCALES = {
    Unit.MESSAGES_PER_SECOND: ((1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")),
    Unit.ROWS_PER_SECOND: ((1e6, "M/s"), (1e3, "k/s"), (1.0, "/s")),
    Unit.TRANSACTIONS_PER_SECOND: ((1e3, "k/s"), (1.0, "/s")),
    Unit.BYTES: ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"), (1.0, "B")),
    Unit.BYTES_PER_SECOND: ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "KB/s"), (1.0, "B/s")),
}


@dataclass(frozen=True, slots=True)
class Spread:
    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.median(values), min(values), max(values))


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` of the values do not exceed (nearest rank)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def show(spread: Spread, unit: Unit) -> str:
    """The median with its unit, and the range in the same unit: `1.14 M/s (1.02-1.20)`."""
    scale, name = _scale(spread.median, unit)
    low, median, high = (_three_digits(value / scale) for value in (spread.low, spread.median, spread.high))
    return f"{median}{name} ({low}-{high})"


def show_ratio(ratio: float) -> str:
    return f"{_three_digits(ratio)}x"


def _scale(value: float, unit: Unit) -> tuple[float, str]:
    for scale, name in _SCALES.get(unit, ()):
        if value >= scale:
            return scale, f" {name}"
    return 1.0, unit.value if unit is Unit.TIMES else f" {unit.value}"


def _three_digits(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    if value >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 or value == 0 else f"{value:.3f}"

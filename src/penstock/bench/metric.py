"""Metrics: what is measured, its unit and its target.

Owns the vocabulary that measurements, results and reports share. It must never know how a figure is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

Readings = Mapping[str, float]
"""One round's figures of one broker, by metric key."""


class Unit(StrEnum):
    """The unit of a figure. Reports scale it; JSON has the plain number in the unit that the value names."""

    MESSAGES_PER_SECOND = "messages/s"
    TRANSACTIONS_PER_SECOND = "transactions/s"
    ROWS_PER_SECOND = "rows/s"
    CPU_SECONDS_PER_GB = "CPU s/GB"
    CORES = "cores"
    MICROSECONDS = "us"
    MILLISECONDS = "ms"
    SECONDS = "s"
    BYTES = "bytes"
    CPU_SECONDS = "CPU s"
    BYTES_PER_SECOND = "bytes/s"
    TIMES = "x"


@dataclass(frozen=True, slots=True)
class Target:
    """The target of a metric. Every bound that is set must hold."""

    ratio_at_least: float | None = None
    """Penstock's median divided by the peer's."""
    ratio_at_most: float | None = None
    value_at_most: float | None = None
    """Penstock's median itself, inclusive."""
    value_below: float | None = None

    def __str__(self) -> str:
        bounds = [
            (self.ratio_at_least, "≥ {:g}x"),
            (self.ratio_at_most, "≤ {:g}x"),
            (self.value_at_most, "≤ {:g}"),
            (self.value_below, "< {:g}"),
        ]
        return ", ".join(form.format(bound) for bound, form in bounds if bound is not None)


@dataclass(frozen=True, slots=True)
class Metric:
    """One row of the report. A row without a target explains its neighbours."""

    key: str
    title: str
    unit: Unit
    target: Target | None = None
    ours_alone: bool = False
    """The peer has no counterpart to measure."""


AT_LEAST_LEVEL = Target(ratio_at_least=1.0)
AT_MOST_LEVEL = Target(ratio_at_most=1.0)
AT_MOST_HALF = Target(ratio_at_most=0.5)
AT_MOST_A_FIFTH = Target(ratio_at_most=0.2)

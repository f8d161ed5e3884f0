"""The results: medians, spread, ratios and verdicts from the readings of all rounds, and their JSON.

Owns the arithmetic from readings to verdicts. It must not know how a figure is taken or shown.

Invariants: a ratio is the ratio of two medians; its spread comes from pairs of the same round, because only those ran
next to each other; a target that lies within the spread is neither met nor missed.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from penstock.bench.figures import Spread
from penstock.bench.metric import Metric, Readings, Target
from penstock.bench.peers import PENSTOCK


class Verdict(StrEnum):
    MET = "met"
    MISSED = "missed"
    NO_DIFFERENCE = "no difference shown"
    """The target lies between the lowest and the highest round: the rounds disagree."""
    UNJUDGED = "unjudged"
    """There is a target, but figures that it needs are missing."""
    NO_TARGET = "no target"


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of every contestant with a reading."""

    metric: Metric
    readings: dict[str, tuple[float, ...]]
    ratio: Spread | None
    verdict: Verdict

    def spread(self, contestant: str) -> Spread | None:
        values = self.readings.get(contestant, ())
        return Spread.of(values) if values else None


@dataclass(frozen=True, slots=True)
class Section:
    """One measurement's rows."""

    name: str
    title: str
    rows: tuple[Row, ...]
    contestants: tuple[str, ...]
    """The contestants, Penstock first."""


@dataclass(slots=True)
class Results:
    """Filled by the runner, read by the reports."""

    rounds: int
    quick: bool
    contestants: dict[str, str]
    machine: dict[str, str | int | float]
    sizes: dict[str, Any]
    started_at: str
    sections: list[Section] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def rows(self) -> list[Row]:
        return [row for section in self.sections for row in section.rows]

    def as_json(self) -> dict[str, Any]:
        return {
            "format": 1,
            "started_at": self.started_at,
            "rounds": self.rounds,
            "quick": self.quick,
            "contestants": self.contestants,
            "machine": self.machine,
            "sizes": self.sizes,
            "notes": self.notes,
            "failures": self.failures,
            "sections": [
                {"name": section.name, "title": section.title, "rows": [_row_as_json(row) for row in section.rows]}
                for section in self.sections
            ],
        }


def section(name: str, title: str, metrics: Sequence[Metric], rounds: dict[str, list[Readings]]) -> Section:
    """`rounds` contains each contestant's readings in the order of the rounds."""
    contestants = tuple(sorted(rounds, key=lambda contestant: contestant != PENSTOCK))
    return Section(name, title, tuple(_row(metric, rounds) for metric in metrics), contestants)


def _row(metric: Metric, rounds: dict[str, list[Readings]]) -> Row:
    readings = {
        contestant: tuple(reading[metric.key] for reading in its_rounds)
        for contestant, its_rounds in rounds.items()
        if its_rounds and (contestant == PENSTOCK or not metric.ours_alone)
    }
    theirs = next((values for contestant, values in readings.items() if contestant != PENSTOCK), ())
    ratio = _ratio(readings.get(PENSTOCK, ()), theirs)
    ours = Spread.of(readings[PENSTOCK]) if PENSTOCK in readings else None
    return Row(metric, readings, ratio, judge(metric.target, ours, ratio))


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> Spread | None:
    if not ours or not theirs or not all(theirs):
        return None
    # If one contestant failed in a later round, rounds of the other have no counterpart.
    paired = min(len(ours), len(theirs))
    ours, theirs = ours[:paired], theirs[:paired]
    pairs = [one / other for one, other in zip(ours, theirs, strict=True)]
    return Spread(Spread.of(ours).median / Spread.of(theirs).median, min(pairs), max(pairs))


def judge(target: Target | None, value: Spread | None, ratio: Spread | None) -> Verdict:
    if target is None:
        return Verdict.NO_TARGET
    verdicts = [
        Verdict.UNJUDGED if spread is None else _judge_bound(spread, bound, holds)
        for spread, bound, holds in (
            (ratio, target.ratio_at_least, operator.ge),
            (ratio, target.ratio_at_most, operator.le),
            (value, target.value_at_most, operator.le),
            (value, target.value_below, operator.lt),
        )
        if bound is not None
    ]
    return next(
        (verdict for verdict in (Verdict.MISSED, Verdict.UNJUDGED, Verdict.NO_DIFFERENCE) if verdict in verdicts),
        Verdict.MET,
    )


def _judge_bound(spread: Spread, bound: float, holds: Callable[[float, float], bool]) -> Verdict:
    outcomes = {holds(figure, bound) for figure in (spread.low, spread.median, spread.high)}
    if len(outcomes) > 1:
        return Verdict.NO_DIFFERENCE
    return Verdict.MET if outcomes == {True} else Verdict.MISSED


def _row_as_json(row: Row) -> dict[str, Any]:
    figures = {}
    for contestant, values in row.readings.items():
        figures[contestant] = {**dataclasses.asdict(Spread.of(values)), "rounds": list(values)}
    return {
        "key": row.metric.key,
        "title": row.metric.title.removeprefix("· "),
        "unit": row.metric.unit.value,
        "target": str(row.metric.target) if row.metric.target else None,
        "figures": figures,
        "ratio": dataclasses.asdict(row.ratio) if row.ratio else None,
        "verdict": row.verdict.value,
    }

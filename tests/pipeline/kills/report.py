"""The figures of a soak, and what they have to be for each guarantee."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

_Value = TypeVar("_Value")


class Difference(NamedTuple):
    """How what is there differs from what was to come."""

    lost: int
    repeated: int
    strange: int


def difference(expected: Counter[_Value], found: Counter[_Value]) -> Difference:
    missing, more = expected - found, found - expected
    strange = sum(count for value, count in more.items() if value not in expected)
    return Difference(missing.total(), more.total() - strange, strange)


NOTHING_YET = Difference(0, 0, 0)


@dataclass(slots=True)
class Report:
    sink: str
    guarantee: str
    seed: int
    kills: Counter[str] = field(default_factory=Counter)  # by victim
    steps: Counter[str] = field(default_factory=Counter)  # named steps that kills landed at
    before_the_sinks_commit: int = 0  # something was written, and did not count yet
    before_sparks_commit: int = 0  # it counted, and Spark had not noted that
    driver_starts: int = 0
    query_restarts: int = 0
    batches: int = 0
    rows: int = 0
    letters: int = 0
    difference: Difference = NOTHING_YET
    letters_difference: Difference = NOTHING_YET
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    @property
    def in_window(self) -> int:
        return self.before_the_sinks_commit + self.before_sparks_commit

    @property
    def holds(self) -> bool:
        """The guarantee was kept, and the weaker ones were seen to be weaker."""
        if self.problems or not self.rows or self.difference.strange or self.letters_difference.strange:
            return False
        lost, repeated, _ = self.difference
        letters_lost, letters_repeated, _ = self.letters_difference
        if self.guarantee == "exactly_once":
            return lost == repeated == letters_lost == letters_repeated == 0
        if self.guarantee == "at_least_once":
            return lost == letters_lost == 0 and repeated > 0
        return lost > 0 and repeated == letters_repeated == 0

    def lines(self) -> list[str]:
        victims = ", ".join(f"{count} of {victim}" for victim, count in sorted(self.kills.items()))
        steps = ", ".join(f"{step} {count}" for step, count in sorted(self.steps.items()))
        return [
            f"{'ok' if self.holds else 'FAILED'}: {self.sink}, {self.guarantee}, seed {self.seed}: "
            f"{self.kills.total()} kills ({victims}), {self.seconds:.0f} s",
            f"  between write and commit: {self.before_the_sinks_commit} before the sink's commit, "
            f"{self.before_sparks_commit} between the sink's and Spark's; at {self.steps.total()} named steps: {steps}",
            f"  {self.driver_starts} starts of the driver, {self.query_restarts} restarts by the supervisor, "
            f"{self.batches} micro-batches reported",
            f"  rows {self.rows}: lost {self.difference.lost}, repeated {self.difference.repeated}, "
            f"strange {self.difference.strange}; dead letters {self.letters}: lost {self.letters_difference.lost}, "
            f"repeated {self.letters_difference.repeated}, strange {self.letters_difference.strange}",
            *(f"  problem: {problem}" for problem in self.problems),
        ]

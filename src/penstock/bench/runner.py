"""Runs every measurement in every round, one contestant after the other.

Owns the alternation and the discarded first round. The contestants alternate, and another one goes first in every
round (A B, B A, A B): other load on the machine, and what one leaves in its caches, affect both. It must not know what
a measurement measures.

Invariant: two brokers are never up at the same time.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from confluent_kafka import KafkaException

from penstock.bench.measurement import Measurement, MeasurementError, Workbench
from penstock.bench.metric import Readings
from penstock.bench.peers import Contestant
from penstock.bench.results import Results, section


class Progress(Protocol):
    """Receives the progress of a run."""

    def begin(self, step: str) -> None:
        """The turn of one contestant in one round begins."""

    def detail(self, text: str) -> None: ...

    def end(self) -> None: ...


# Raised by a broker that misbehaves, or by its fixture (RuntimeError). Anything else is a bug of the benchmark.
_FAILURES = (MeasurementError, KafkaException, OSError, RuntimeError, subprocess.SubprocessError)


def run(
    *,
    measurements: Sequence[Measurement],
    warm_up: Callable[[str], Measurement],
    contestants: Sequence[Contestant],
    results: Results,
    data_parent: Path,
    progress: Progress,
    short_rounds: Mapping[str, int] | None = None,
) -> None:
    """Fills `results`. A contestant that fails in a measurement is skipped in the rest of it, but not in others.

    `short_rounds` says by name how many rounds a measurement of short turns makes in place of one.
    """
    workbench = Workbench(data_parent, progress.detail)
    for measurement in measurements:
        rounds: dict[str, list[Readings]] = {contestant.name: [] for contestant in contestants}
        failed: set[str] = set()
        try:
            round_count = results.rounds * (short_rounds or {}).get(measurement.name, 1)
            for number in range(round_count + 1):
                for contestant in contestants if number % 2 == 0 else tuple(reversed(contestants)):
                    if contestant.name in failed:
                        continue
                    label = f"round {number}/{round_count}" if number else "warm-up round"
                    progress.begin(f"{measurement.name}, {label}, {contestant.title}")
                    subject = measurement if number else warm_up(measurement.name)
                    try:
                        readings = subject.run(contestant, workbench)
                    except _FAILURES as error:
                        failed.add(contestant.name)
                        results.failures.append(f"{measurement.name}, {label}, {contestant.title}: {error}")
                    else:
                        if number:
                            rounds[contestant.name].append(readings)
                    progress.end()
        finally:
            # An interrupted benchmark still reports its complete rounds.
            results.sections.append(section(measurement.name, measurement.title, measurement.metrics, rounds))

"""The order of things: every measurement, every round, one contestant after the other.

Owns alternation and the discarded first round. Within a round the contestants take turns (A B A B over the rounds), so
that whatever else the machine does falls on both. It must never know what a measurement measures.

Invariant: two brokers are never up at the same time.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from confluent_kafka import KafkaException

from penstock.bench.errors import MeasurementError
from penstock.bench.measurement import Measurement, Workbench
from penstock.bench.metric import Readings
from penstock.bench.peers import Contestant
from penstock.bench.results import Results, section


class Progress(Protocol):
    """Somebody who waits."""

    def begin(self, step: str) -> None:
        """One contestant's turn in one round begins."""

    def detail(self, text: str) -> None: ...

    def end(self) -> None: ...


# What a broker that misbehaves raises, its fixture's RuntimeError included. Anything else is a bug of the benchmark.
_FAILURES = (MeasurementError, KafkaException, OSError, RuntimeError, subprocess.SubprocessError)


def run(
    *,
    measurements: Sequence[Measurement],
    warm_up: Callable[[str], Measurement],
    contestants: Sequence[Contestant],
    results: Results,
    data_parent: Path,
    progress: Progress,
) -> None:
    """Fills `results`. A contestant that fails in a measurement is out of that measurement, and of it alone."""
    workbench = Workbench(data_parent, progress.detail)
    for measurement in measurements:
        rounds: dict[str, list[Readings]] = {contestant.name: [] for contestant in contestants}
        failed: set[str] = set()
        try:
            for number in range(results.rounds + 1):
                for contestant in contestants:
                    if contestant.name in failed:
                        continue
                    label = f"round {number}/{results.rounds}" if number else "warm-up round"
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
            # An interrupted benchmark still reports the rounds that were whole.
            results.sections.append(section(measurement.name, measurement.title, measurement.metrics, rounds))

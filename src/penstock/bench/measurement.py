"""The interface of a measurement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from penstock.bench.metric import Metric, Readings
from penstock.bench.peers import Contestant


@dataclass(frozen=True, slots=True)
class Workbench:
    """What a measurement uses: a directory for data, and a callback for its progress."""

    data_parent: Path
    tell: Callable[[str], None]


class MeasurementError(Exception):
    """A measurement failed, or its counts do not match what was sent. It ends this measurement, not the benchmark."""


class Measurement(Protocol):
    """Built for given sizes; `run` measures one contestant once and removes its data."""

    @property
    def name(self) -> str:
        """Its name in `--only`."""

    @property
    def title(self) -> str: ...

    @property
    def metrics(self) -> Sequence[Metric]: ...

    @property
    def disk_bytes(self) -> int:
        """The maximum disk space that one contestant's data takes."""

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings: ...

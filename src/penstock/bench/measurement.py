"""What every measurement looks like to the runner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from penstock.bench.metric import Metric, Readings
from penstock.bench.peers import Contestant


@dataclass(frozen=True, slots=True)
class Workbench:
    """What a measurement is given: a place for data, and somebody who listens to its progress."""

    data_parent: Path
    tell: Callable[[str], None]


class Measurement(Protocol):
    """Built for given sizes; takes its figures of one contestant, once, and leaves nothing behind."""

    @property
    def name(self) -> str:
        """What `--only` calls it."""

    @property
    def title(self) -> str: ...

    @property
    def metrics(self) -> Sequence[Metric]: ...

    @property
    def disk_bytes(self) -> int:
        """The most that one contestant's data takes on disk at any moment."""

    def run(self, contestant: Contestant, workbench: Workbench) -> Readings: ...

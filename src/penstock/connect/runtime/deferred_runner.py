"""A `Runner` that is made when it is first needed: Arrow and all that moves records take longer to import than the rest
of a worker, which can answer over REST without them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from penstock.connect.connector import SourceOffset, SourcePartition
from penstock.connect.runtime.runner import Execution, Runner, SinkOffsets, SourceOffsets
from penstock.core.ids import TopicPartition


class DeferredRunner:
    """Implements `Runner`. Threads may share it."""

    def __init__(self, make: Callable[[], Runner]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._runner: Runner | None = None

    def made(self) -> Runner:
        """Raises what making it raises, at each call until it is made."""
        with self._lock:
            if self._runner is None:
                self._runner = self._make()
            return self._runner

    def run(self, execution: Execution) -> None:
        self.made().run(execution)

    def task_count(self, name: str, config: Mapping[str, str]) -> int:
        return self.made().task_count(name, config)

    def fence(self, name: str, config: Mapping[str, str], task_count: int) -> None:
        self.made().fence(name, config, task_count)

    def offsets(self, name: str, config: Mapping[str, str]) -> SinkOffsets | SourceOffsets:
        return self.made().offsets(name, config)

    def alter_offsets(
        self,
        name: str,
        config: Mapping[str, str],
        offsets: Mapping[TopicPartition, int | None] | Sequence[tuple[SourcePartition, SourceOffset | None]] | None,
    ) -> str:
        return self.made().alter_offsets(name, config, offsets)

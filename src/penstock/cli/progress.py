"""A progress line on stderr that counts records, shown after one second.

Invariant: if stderr is not a terminal, nothing is written and Rich is not imported.
"""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_PATIENCE_S: Final = 1.0
_REFRESH_S: Final = 0.1


class RecordCounter:
    """Counts records; shows the count only on a terminal."""

    def __init__(self, verb: str, *, visible: bool) -> None:
        self.records = 0
        self.bytes = 0
        self._verb = verb
        self._visible = visible and sys.stderr.isatty()
        self._started = time.monotonic()
        self._shown_at = self._started + _PATIENCE_S - _REFRESH_S
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def add(self, records: int, size: int) -> None:
        self.records += records
        self.bytes += size
        if self._visible and time.monotonic() - self._shown_at >= _REFRESH_S:
            self._show()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def _show(self) -> None:
        if self._progress is None:
            from rich.console import Console
            from rich.progress import Progress, SpinnerColumn, TextColumn

            self._progress = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                console=Console(stderr=True),
                transient=True,
            )
            self._task = self._progress.add_task(self._verb, total=None)
            self._progress.start()
        assert self._task is not None
        elapsed_s = time.monotonic() - self._started
        rate = self.records / elapsed_s
        text = f"{self._verb} {self.records:,} records, {self.bytes / 1e6:,.1f} MB in {elapsed_s:.1f} s, {rate:,.0f}/s"
        self._progress.update(self._task, description=text)
        self._shown_at = time.monotonic()

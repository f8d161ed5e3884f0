"""Shows progress on stderr: a bar on a terminal, a line per step otherwise."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich import progress as rich_progress
from rich.console import Console


class ConsoleProgress:
    """Implements the runner's Progress. A context manager that removes the bar at its end."""

    def __init__(self, console: Console, step_count: int) -> None:
        self._console = console
        self._step_count = step_count
        self._done = 0
        self._step = ""
        self._bar = rich_progress.Progress(
            rich_progress.SpinnerColumn(),
            rich_progress.BarColumn(bar_width=20),
            rich_progress.MofNCompleteColumn(),
            rich_progress.TimeElapsedColumn(),
            rich_progress.TextColumn("{task.description}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=step_count)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin(self, step: str) -> None:
        self._step = step
        self._bar.update(self._task, description=step)
        if not self._console.is_terminal:
            self._console.print(f"[{self._done + 1}/{self._step_count}] {step}", markup=False, highlight=False)

    def detail(self, text: str) -> None:
        self._bar.update(self._task, description=f"{self._step}: {text}")

    def end(self) -> None:
        self._done += 1
        self._bar.update(self._task, completed=self._done)

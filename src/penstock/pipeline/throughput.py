"""How many rows a pipeline processes per second, from the batches that it reports.

A batch's rows count evenly over the time in which they were processed, not at the moment of the report: five million
rows that took 113 s are 44,000 rows/s, however short the window. Time is passed in.

While a batch runs, nothing is known of its rows, so the rate is that of the window before it. An idle pipeline
processes nothing, and its rate falls to zero within a window.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

WINDOW_S: Final = 10.0


class _Batch(NamedTuple):
    start_s: float
    end_s: float
    rows: int

    def rows_after(self, moment_s: float) -> float:
        if self.end_s <= moment_s:
            return 0.0
        if self.start_s >= moment_s:
            return float(self.rows)
        return self.rows * (self.end_s - moment_s) / (self.end_s - self.start_s)


class Throughput:
    """Batches arrive in the order in which they end."""

    def __init__(self, window_s: float = WINDOW_S) -> None:
        self._window_s = window_s
        self._batches: deque[_Batch] = deque()
        self._begun_s = 0.0  # of the first batch
        self._known_until_s: float | None = None  # None: the pipeline is idle, so everything is known

    def add(self, rows: int, duration_s: float, now_s: float) -> None:
        """A batch of `rows` that took `duration_s` has just ended."""
        start_s = now_s - duration_s
        if self._batches:
            # Reports are read some time after a batch ends. Batches of one query do not overlap.
            start_s = max(start_s, min(self._batches[-1].end_s, now_s))
        else:
            self._begun_s = start_s
        self._batches.append(_Batch(start_s, now_s, rows))
        self._known_until_s = now_s
        while len(self._batches) > 1 and self._batches[0].end_s <= now_s - self._window_s:
            self._batches.popleft()

    def idle(self) -> None:
        """All available rows are processed: nothing happens since the last batch."""
        self._known_until_s = None

    def busy(self, now_s: float) -> None:
        """A batch runs."""
        if self._known_until_s is None:
            self._known_until_s = now_s

    def rows_per_second(self, now_s: float) -> float:
        if not self._batches:
            return 0.0
        end_s = now_s if self._known_until_s is None else self._known_until_s
        begin_s = max(end_s - self._window_s, self._begun_s)
        seconds = end_s - begin_s
        return sum(batch.rows_after(begin_s) for batch in self._batches) / seconds if seconds > 0 else 0.0

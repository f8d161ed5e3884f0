"""How many records a micro-batch takes where its author does not say: so many that it lasts about as long as wanted.

A backlog of millions in one micro-batch shows no progress for minutes, and a crash repeats all of it; small batches
cost throughput. So the first one is small, and each further one that does not take all available records is sized by
the time of the one before. Pure: the time is passed in.

Invariant: only a batch that was limited changes the size. While all available records fit, nothing is measured: the
query may have waited for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

FIRST_ROWS: Final = 200_000
_SMALLEST_ROWS: Final = 10_000
_GROWTH_MAX: Final = 8.0
_SHRINKAGE_MAX: Final = 0.25


@dataclass(slots=True)
class BatchSizing:
    target_s: float
    rows: int = FIRST_ROWS
    _limited_since_s: float | None = None

    def planned(self, available_rows: int, now_s: float) -> None:
        """A batch begins, of as many of the available records as `rows` allows."""
        self._limited_since_s = now_s if available_rows > self.rows else None

    def asked_for_next(self, now_s: float) -> None:
        """The batch before is done."""
        if self._limited_since_s is None:
            return
        elapsed_s = max(now_s - self._limited_since_s, 0.001)
        self._limited_since_s = None
        factor = min(_GROWTH_MAX, max(_SHRINKAGE_MAX, self.target_s / elapsed_s))
        self.rows = max(_SMALLEST_ROWS, int(self.rows * factor))

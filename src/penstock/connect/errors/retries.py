"""How long a failed operation waits before it is tried again (KIP-298).

The first delay is 300 ms, and each one doubles. Where a delay would exceed the maximum, it is a random one below it.
Pure: time and chance are arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

DELAY_MIN_MS: Final = 300
_DOUBLINGS_MAX: Final = 50  # beyond any maximum


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """`timeout_ms` 0: no retries. -1: for ever."""

    timeout_ms: int = 0
    delay_max_ms: int = 60_000

    def delay_ms(self, attempt: int, started_ms: int, now_ms: int, chance: float) -> int | None:
        """The wait after this attempt, which counts from 1; None: it was the last. `chance` is from 0 up to 1."""
        left_ms = None if self.timeout_ms < 0 else started_ms + self.timeout_ms - now_ms
        if left_ms is not None and left_ms <= 0:
            return None
        delay = DELAY_MIN_MS << min(attempt - 1, _DOUBLINGS_MAX)
        if delay > self.delay_max_ms:
            delay = int(chance * self.delay_max_ms)
        return delay if left_ms is None else min(delay, left_ms)

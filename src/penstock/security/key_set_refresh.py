"""When a key set is loaded again: at intervals, after failures with a growing delay, and for a key it does not have.

A state machine without I/O: `broker/network/token_keys.py` loads the set and asks here for the next time. Kafka's
settings `sasl.oauthbearer.jwks.endpoint.*` are its parameters.

Invariant: tokens with made-up key ids, however many, cause one load per `UNKNOWN_KEY_REFRESH_MS` at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

UNKNOWN_KEY_REFRESH_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class RefreshTimes:
    refresh_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int


class KeySetRefresh:
    """`due_ms` is when the next load begins, on the caller's clock. The set has just been loaded at `now_ms`."""

    def __init__(self, times: RefreshTimes, now_ms: int) -> None:
        self._times = times
        self._failures = 0
        self._expedited_ms = now_ms - UNKNOWN_KEY_REFRESH_MS
        self.due_ms = now_ms + times.refresh_ms

    def succeeded(self, now_ms: int) -> None:
        self._failures = 0
        self.due_ms = now_ms + self._times.refresh_ms

    def failed(self, now_ms: int) -> None:
        """The wait doubles with every failure, from one backoff to the other."""
        doubled = self._times.retry_backoff_ms << min(self._failures, 32)
        self._failures += 1
        self.due_ms = now_ms + min(doubled, self._times.retry_backoff_max_ms, self._times.refresh_ms)

    def unknown_key(self, now_ms: int) -> bool:
        """A token names a key that the set does not have. True if the set is due now because of it."""
        if now_ms < self._expedited_ms + UNKNOWN_KEY_REFRESH_MS:
            return False
        self._expedited_ms = now_ms
        self.due_ms = min(self.due_ms, now_ms)
        return True

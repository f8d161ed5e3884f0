"""Rates of clients against their quotas: how much was used, and for how long a client has to wait.

Two measures, both Kafka's. A `WindowedRate` averages over the last windows: bytes and request time. A `TokenBucket`
lets a burst through and refills at the rate of the quota: changes of the cluster (KIP-599) and new connections
(KIP-612).
`QuotaTable` finds the quota of a user and client id, with Kafka's precedence.

Must never know: connections, requests, the cluster. The time is an argument, in milliseconds.

Invariant: a client that always waits as long as it is told keeps to its quota in the long run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from penstock.core.quotas import DEFAULT, QuotaEntity


@dataclass(frozen=True, slots=True)
class Windows:
    """`quota.window.num` and `quota.window.size.seconds`."""

    count: int = 11
    size_ms: int = 1000

    @property
    def burst_seconds(self) -> float:
        return self.count * self.size_ms / 1000


class WindowedRate:
    """A sum per window. As in Kafka, a new rate counts as if the windows before it had been empty."""

    __slots__ = ("_samples", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._samples: deque[tuple[int, float]] = deque()  # the start of each window, and its sum

    def record(self, value: float, now_ms: int) -> None:
        self._forget(now_ms)
        if self._samples and now_ms < self._samples[-1][0] + self._windows.size_ms:
            start_ms, total = self._samples[-1]
            self._samples[-1] = (start_ms, total + value)
        else:
            self._samples.append((now_ms, value))

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """How long nothing may be added until the rate is down to the quota; 0 if it is already."""
        self._forget(now_ms)
        elapsed_ms = self._elapsed_ms(now_ms)
        rate = sum(total for _, total in self._samples) * 1000 / elapsed_ms
        return round((rate - quota) / quota * elapsed_ms) if rate > quota else 0

    def is_unused(self, now_ms: int) -> bool:
        self._forget(now_ms)
        return not self._samples

    def _elapsed_ms(self, now_ms: int) -> int:
        """At least all windows but the last, or the first bytes of a client would look like an enormous rate."""
        start_ms = self._samples[0][0] if self._samples else now_ms
        elapsed_ms = max(0, now_ms - start_ms)
        missing = self._windows.count - 1 - elapsed_ms // self._windows.size_ms
        return max(1, elapsed_ms + max(0, missing) * self._windows.size_ms)

    def _forget(self, now_ms: int) -> None:
        oldest_ms = now_ms - self._windows.count * self._windows.size_ms
        while self._samples and self._samples[0][0] <= oldest_ms:
            self._samples.popleft()


class TokenBucket:
    """Holds the tokens of all windows when it is full. Taking may overdraw it; then nothing is taken for a time."""

    __slots__ = ("_tokens", "_updated_ms", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens: float | None = None  # None: full, whatever the quota
        self._updated_ms = 0

    def take(self, value: float, quota: float, now_ms: int) -> None:
        self._tokens = self._refilled(quota, now_ms) - value
        self._updated_ms = now_ms

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """How long until the bucket is no longer overdrawn."""
        tokens = self._refilled(quota, now_ms)
        return round(-tokens / quota * 1000) if tokens < 0 else 0

    def is_unused(self, quota: float, now_ms: int) -> bool:
        return self._refilled(quota, now_ms) >= quota * self._windows.burst_seconds

    def _refilled(self, quota: float, now_ms: int) -> float:
        burst = quota * self._windows.burst_seconds
        if self._tokens is None:
            return burst
        return min(burst, self._tokens + max(0, now_ms - self._updated_ms) * quota / 1000)


class Quota(NamedTuple):
    """A limit, and who shares it: all connections with the same `meter` are measured together."""

    limit: float
    meter: tuple[str | None, str | None]


class QuotaTable:
    """The quotas of one kind, by whom they are for."""

    def __init__(self, limits: Mapping[QuotaEntity, float]) -> None:
        self._limits = limits

    def __bool__(self) -> bool:
        return bool(self._limits)

    def of_client(self, user: str, client_id: str) -> Quota | None:
        """Kafka's order: the most specific entity wins, and a user comes before a client id.

        A quota of a user is shared by all of its clients, and one of a client id by that client of all users.
        """
        both, of_user, of_client = (user, client_id), (user, None), (None, client_id)
        for entity, meter in (
            (QuotaEntity(user, client_id), both),
            (QuotaEntity(user, DEFAULT), both),
            (QuotaEntity(user), of_user),
            (QuotaEntity(DEFAULT, client_id), both),
            (QuotaEntity(DEFAULT, DEFAULT), both),
            (QuotaEntity(DEFAULT), of_user),
            (QuotaEntity(None, client_id), of_client),
            (QuotaEntity(None, DEFAULT), of_client),
        ):
            limit = self._limits.get(entity)
            if limit is not None:
                return Quota(limit, meter)
        return None

    def of_ip(self, ip: str) -> float | None:
        own = self._limits.get(QuotaEntity(ip=ip))
        return own if own is not None else self._limits.get(QuotaEntity(ip=DEFAULT))

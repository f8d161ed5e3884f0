"""The use of quotas: how much a client has used, and for how long it has to wait.

A `TokenBucket` lets a burst through and refills at the rate of the quota. Kafka has it for changes of the cluster
(KIP-599); it averages bytes and request time over windows instead, and a client that sends all it can then stands still
for ten seconds after each burst. The burst is the same in both.
`QuotaTable` finds the quota of a user and client id, with Kafka's precedence.

Must never know: connections, requests, the cluster. The time is an argument, in milliseconds.

Invariant: a client that always waits as long as it is told keeps to its quota.
"""

from __future__ import annotations

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
    def burst_of_changes_s(self) -> float:
        """How many seconds' worth of changes and connections Kafka lets through at once."""
        return self.count * self.size_ms / 1000

    @property
    def burst_of_bytes_s(self) -> float:
        """The same for bytes and request time: all windows but the one that has just begun."""
        return max(1, self.count - 1) * self.size_ms / 1000


class TokenBucket:
    """What was used and not refilled yet. More than a burst may be used at once; then nothing is for a time."""

    __slots__ = ("_burst_s", "_updated_ms", "_used")

    def __init__(self, burst_s: float) -> None:
        """A burst is what the quota allows in so many seconds."""
        self._burst_s = burst_s
        self._used = 0.0
        self._updated_ms = 0

    def take(self, value: float, quota: float, now_ms: int) -> None:
        self._used = self._used_at(quota, now_ms) + value
        self._updated_ms = now_ms

    def throttle_ms(self, quota: float, now_ms: int) -> int:
        """How long until no more than a burst is used."""
        excess = self._used_at(quota, now_ms) - quota * self._burst_s
        return round(excess / quota * 1000) if excess > 0 else 0

    def is_unused(self, quota: float, now_ms: int) -> bool:
        return self._used_at(quota, now_ms) == 0

    def _used_at(self, quota: float, now_ms: int) -> float:
        return max(0.0, self._used - max(0, now_ms - self._updated_ms) * quota / 1000)


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

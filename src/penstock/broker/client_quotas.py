"""The quotas of this broker's clients at work: what each has used, and for how long its connection is muted.

`security/quotas.py` measures and finds the quota of a client; this module feeds it from requests. A node has one of
these only while some quota is set, so that a broker without quotas does no work for them.

Belongs to the event loop.

Invariant: the number of meters is bounded, however many client ids a peer invents.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.core import limits
from penstock.core.quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    QuotaEntity,
)
from penstock.metadata.broker_config import BrokerConfig
from penstock.security.quotas import Quota, QuotaTable, TokenBucket, Windows

_PRODUCE_KEY: Final = 0
_FETCH_KEY: Final = 1
_SHARED: Final = (None, None)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a request cost by the time that its handler returned."""

    user: str
    client_id: str
    request_bytes: int
    handled_s: float


class MutationQuota:
    """One client's `controller_mutation_rate` (KIP-599): partitions that it creates and deletes."""

    __slots__ = ("_bucket", "_limit", "_now_ms")

    def __init__(self, bucket: TokenBucket, limit: float, now_ms: int) -> None:
        self._bucket = bucket
        self._limit = limit
        self._now_ms = now_ms

    @property
    def throttle_ms(self) -> int:
        return self._bucket.throttle_ms(self._limit, self._now_ms)

    def admission(self, *, strict: bool) -> Callable[[object, int], bool]:
        """Counts each change of a request once, by a key: a decision may be made again.

        `strict`: the client knows the error for an exceeded quota, so it is refused; else it only has to wait.
        """
        decided: dict[object, bool] = {}

        def admit(key: object, partitions: int) -> bool:
            if key not in decided:
                decided[key] = not (strict and self.throttle_ms)
                if decided[key]:
                    self._bucket.take(partitions, self._limit, self._now_ms)
            return decided[key]

        return admit


class ClientQuotas:
    def __init__(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float]],
        config: BrokerConfig,
        monotonic_ms: Callable[[], int],
        before: ClientQuotas | None = None,
    ) -> None:
        """What was measured so far stays when quotas change: `before` is what they were."""
        self._monotonic_ms = monotonic_ms
        self._windows = Windows(config.quota_window_num, config.quota_window_size_seconds * 1000)
        self._controller_windows = Windows(
            config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000
        )
        self._produce = _table(quotas, PRODUCER_BYTE_RATE)
        self._fetch = _table(quotas, CONSUMER_BYTE_RATE)
        self._requests = _table(quotas, REQUEST_PERCENTAGE)
        self._mutations = _table(quotas, CONTROLLER_MUTATION_RATE)
        self._connections = _table(quotas, CONNECTION_CREATION_RATE)
        self._buckets: dict[tuple[object, ...], tuple[float, TokenBucket]] = (
            before._buckets if before is not None else {}
        )
        self._pruned_ms = 0

    @staticmethod
    def usage(user: str, client_id: str, request_bytes: int, handled_s: float) -> Usage:
        return Usage(user, client_id, request_bytes, handled_s)

    def charge(self, usage: Usage, api_key: int, answer: Any) -> int:
        """Counts an answered request; how many milliseconds the connection is to be muted."""
        user, client_id = usage.user, usage.client_id
        throttle_ms = 0
        if api_key == _PRODUCE_KEY and self._produce:
            quota = self._produce.of_client(user, client_id)
            throttle_ms = self._record(PRODUCER_BYTE_RATE, quota, usage.request_bytes)
        elif api_key == _FETCH_KEY and self._fetch:
            quota = self._fetch.of_client(user, client_id)
            throttle_ms = self._record(CONSUMER_BYTE_RATE, quota, _record_bytes(answer))
        if self._requests:
            quota = self._requests.of_client(user, client_id)
            # Of one second, as a percentage of one core. As in Kafka, one violation mutes for a window at most.
            waits_ms = self._record(REQUEST_PERCENTAGE, quota, usage.handled_s * 100)
            throttle_ms = max(throttle_ms, min(waits_ms, self._windows.size_ms))
        return throttle_ms

    def fetch_bytes_max(self, user: str, client_id: str) -> int | None:
        """What one fetch may return: a burst. More would mute the client beyond its timeouts."""
        quota = self._fetch.of_client(user, client_id) if self._fetch else None
        if quota is None:
            return None
        return max(1, int(quota.limit * self._windows.burst_of_bytes_s))

    def mutations(self, user: str, client_id: str) -> MutationQuota | None:
        quota = self._mutations.of_client(user, client_id) if self._mutations else None
        if quota is None:
            return None
        key = (CONTROLLER_MUTATION_RATE, *quota.meter)
        return MutationQuota(
            self._bucket(key, quota.limit, self._controller_windows.burst_of_changes_s),
            quota.limit,
            self._monotonic_ms(),
        )

    def connection_throttle_ms(self, ip: str) -> int:
        """Counts a new connection; how long it is kept waiting before it is closed. 0: it is accepted."""
        limit = self._connections.of_ip(ip) if self._connections else None
        if limit is None:
            return 0
        now_ms = self._monotonic_ms()
        bucket = self._bucket((CONNECTION_CREATION_RATE, ip), limit, self._windows.burst_of_changes_s)
        throttle_ms = bucket.throttle_ms(limit, now_ms)
        if not throttle_ms:
            bucket.take(1, limit, now_ms)
        return throttle_ms

    def _record(self, key: str, quota: Quota | None, value: float) -> int:
        if quota is None:
            return 0
        now_ms = self._monotonic_ms()
        bucket = self._bucket((key, *quota.meter), quota.limit, self._windows.burst_of_bytes_s)
        bucket.take(value, quota.limit, now_ms)
        return bucket.throttle_ms(quota.limit, now_ms)

    def _bucket(self, key: tuple[object, ...], limit: float, burst_s: float) -> TokenBucket:
        known = self._buckets.get(key)
        if known is None:
            self._prune(self._monotonic_ms())
            if len(self._buckets) >= limits.QUOTA_METERS_MAX:
                key = (key[0], *_SHARED)
            known = self._buckets.get(key, (limit, TokenBucket(burst_s)))
        self._buckets[key] = (limit, known[1])
        return known[1]

    def _prune(self, now_ms: int) -> None:
        """Forgets clients whose use is refilled; once a second at most."""
        if len(self._buckets) < limits.QUOTA_METERS_MAX or now_ms < self._pruned_ms + 1000:
            return
        self._pruned_ms = now_ms
        self._buckets = {
            key: (limit, bucket)
            for key, (limit, bucket) in self._buckets.items()
            if not bucket.is_unused(limit, now_ms)
        }


def _table(quotas: Mapping[QuotaEntity, Mapping[str, float]], key: str) -> QuotaTable:
    return QuotaTable({entity: of_entity[key] for entity, of_entity in quotas.items() if key in of_entity})


def _record_bytes(answer: Any) -> int:
    return sum(len(data.records or b"") for topic in answer.responses for data in topic.partitions)

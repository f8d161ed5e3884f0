"""A broker's session: the lease that its registration stands under, kept alive, and until when it may trust it.

The broker must stop to act on its own before the store deletes its registration, without being told. So `deadline_ms`
counts from when the last successful keep-alive was sent, by this machine's monotonic clock, and ends a margin before
the time to live does. The margin covers clocks that run at different speeds, and a leader of etcd that was deposed and
does not know it yet.

Invariant: `deadline_ms` is never later than the end of a lease that no one keeps alive from now on.
Invariant: a lost lease is never trusted again; a new one begins a new session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from penstock.broker.etcd.availability import Availability
from penstock.core.clock import Clock
from penstock.metadata.key_value_store import KeyValueStore, LeaseId, LeaseNotFound, StoreRefused, StoreUnavailable

_MARGIN_FRACTION: Final = 6
_RETRY_S: Final = 0.2


class Session:
    """Belongs to the event loop. `run` is its one task."""

    def __init__(
        self,
        store: KeyValueStore,
        clock: Clock,
        availability: Availability,
        *,
        ttl_ms: int,
        heartbeat_interval_ms: int,
        on_lease: Callable[[LeaseId], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._availability = availability
        self._ttl_ms = ttl_ms
        self._interval_s = heartbeat_interval_ms / 1000
        self._on_lease = on_lease
        self._is_lost = asyncio.Event()
        self._is_lost.set()  # there is none yet
        self.lease_id: LeaseId | None = None
        self.deadline_ms = clock.monotonic_ms()
        """By the monotonic clock. In the past while there is no lease."""

    async def begin(self) -> None:
        """Takes a new lease. Raises StoreUnavailable or StoreRefused."""
        sent_ms = self._clock.monotonic_ms()
        lease = await self._store.grant_lease(self._ttl_ms)
        self.lease_id = lease.lease_id
        self._extend(sent_ms)
        self._on_lease(lease.lease_id)

    async def run(self) -> None:
        """Keeps the lease alive, and takes a new one whenever it was lost."""
        wait_s = self._interval_s
        while True:
            try:
                # A lease that is known to be lost is replaced at once.
                async with asyncio.timeout(wait_s):
                    await self._is_lost.wait()
            except TimeoutError:
                pass
            self._is_lost.clear()
            wait_s = self._interval_s if await self._beat() else min(_RETRY_S, self._interval_s)

    def lost(self, lease_id: LeaseId) -> None:
        """The store says that the lease is gone: the next heartbeat takes another one."""
        if self.lease_id == lease_id:
            self.lease_id = None
            self.deadline_ms = self._clock.monotonic_ms()
            self._is_lost.set()

    async def _beat(self) -> bool:
        lease_id, sent_ms = self.lease_id, self._clock.monotonic_ms()
        try:
            if lease_id is None:
                await self.begin()
            else:
                await self._store.keep_alive(lease_id)
                if self.lease_id == lease_id:
                    self._extend(sent_ms)
        except LeaseNotFound:
            assert lease_id is not None
            self.lost(lease_id)
            return False
        except (StoreUnavailable, StoreRefused) as error:
            self._availability.lost(error)
            return False
        self._availability.answered()
        return True

    def _extend(self, sent_ms: int) -> None:
        self.deadline_ms = sent_ms + self._ttl_ms - self._ttl_ms // _MARGIN_FRACTION

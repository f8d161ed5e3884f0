"""A linearizable key-value store with leases and watches, and a client of it for each process.

The store is one state that answers in the order in which requests reach it, as etcd's quorum does. What can go wrong
lies between it and its clients: requests and answers that are late or lost, so that a call that failed may have taken
effect or takes effect later; times in which no quorum answers; watches that break; history that is compacted.

A lease never ends before its time to live by the world's clock. It may last longer: etcd looks for expired leases in
intervals, and a newly elected leader of etcd gives each of them its whole time again.
"""

from __future__ import annotations

import asyncio
import math
from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Final, TypeVar

from penstock.metadata.key_value_store import (
    NO_LEASE,
    NO_REVISION,
    Commit,
    Compare,
    Delete,
    KeyChange,
    KeyValue,
    Lease,
    LeaseId,
    LeaseNotFound,
    Put,
    Revision,
    RevisionCompacted,
    Snapshot,
    StoreUnavailable,
    WatchedChanges,
)
from tests.simulation.cluster.network import Network
from tests.simulation.cluster.world import ProcessLoop, World

HOST: Final = "etcd"
REQUEST_TIMEOUT_S: Final = 5.0
WATCH_CHECK_S: Final = 4.0
LEASE_CHECK_S_MAX: Final = 0.5

T = TypeVar("T")


class SimulatedEtcd:
    """The store. `on_commit` is told of every revision at the moment it is committed."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.loop = ProcessLoop(world, HOST)
        self.revision = Revision(1)
        self.compacted = Revision(0)
        self.is_away = False
        self.on_commit: Callable[[WatchedChanges], None] | None = None
        self.watches: dict[Watch, None] = {}
        self._versions: dict[str, list[KeyValue | None]] = {}
        self._revisions: dict[str, list[Revision]] = {}
        self._history: list[WatchedChanges] = []
        self._leases: dict[LeaseId, tuple[int, float]] = {}  # time to live and end, in seconds of the world
        self._last_lease = 0

    # What a nemesis does

    def go_away(self) -> None:
        """No quorum: nothing is answered, and leases do not end."""
        self.is_away = True
        for watch in tuple(self.watches):
            watch.broken()

    def come_back(self) -> None:
        self.is_away = False
        for lease_id, (ttl_s, _) in tuple(self._leases.items()):
            self._extend(lease_id, ttl_s)

    def compact(self) -> None:
        """Gives up the history up to now. A watch that has fallen behind is told."""
        self.compacted = self.revision

    # Requests

    def entry(self, key: str, at: Revision) -> KeyValue | None:
        position = bisect_right(self._revisions.get(key, ()), at)
        return self._versions[key][position - 1] if position else None

    def read(self, key: str, end: str | None, revision: Revision, limit: int) -> Snapshot:
        at = revision or self.revision
        if at < self.compacted:
            raise RevisionCompacted
        keys = [key] if end is None else sorted(each for each in self._versions if key <= each < end)
        found = [entry for entry in (self.entry(each, at) for each in keys) if entry is not None]
        if limit and len(found) > limit:
            return Snapshot(self.revision, tuple(found[:limit]), has_more=True)
        return Snapshot(self.revision, tuple(found))

    def commit(self, compares: Sequence[Compare], operations: Sequence[Put | Delete]) -> Commit:
        for compare in compares:
            entry = self.entry(compare.key, self.revision)
            if (NO_REVISION if entry is None else entry.mod_revision) != compare.mod_revision:
                return Commit(succeeded=False, revision=self.revision)
        changes: dict[str, KeyChange] = {}
        for operation in operations:
            if isinstance(operation, Put):
                if operation.lease_id != NO_LEASE and operation.lease_id not in self._leases:
                    raise LeaseNotFound
                changes[operation.key] = KeyChange(operation.key, operation.value, operation.lease_id)
            else:
                for key in self._existing(operation.key, operation.end):
                    changes[key] = KeyChange(key, None)
        if changes:
            self._append(tuple(changes.values()))
        return Commit(succeeded=True, revision=self.revision)

    def grant_lease(self, ttl_ms: int) -> Lease:
        self._last_lease += 1
        lease_id = LeaseId(self._last_lease)
        ttl_s = math.ceil(ttl_ms / 1000)
        self._extend(lease_id, ttl_s)
        return Lease(lease_id, ttl_s * 1000)

    def keep_alive(self, lease_id: LeaseId) -> None:
        if lease_id not in self._leases:
            raise LeaseNotFound
        self._extend(lease_id, self._leases[lease_id][0])

    def revoke_lease(self, lease_id: LeaseId) -> None:
        if self._leases.pop(lease_id, None) is None:
            return
        attached = [
            KeyChange(key, None)
            for key in sorted(self._versions)
            if (entry := self.entry(key, self.revision)) is not None and entry.lease_id == lease_id
        ]
        if attached:
            self._append(tuple(attached))

    def changes_after(self, prefix: str, after: Revision) -> list[WatchedChanges]:
        if after < self.compacted:
            raise RevisionCompacted
        found = (_of_prefix(each, prefix) for each in self._history if each.revision > after)
        return [each for each in found if each is not None]

    def _existing(self, key: str, end: str | None) -> list[str]:
        keys = [key] if end is None else sorted(each for each in self._versions if key <= each < end)
        return [each for each in keys if self.entry(each, self.revision) is not None]

    def _append(self, changes: tuple[KeyChange, ...]) -> None:
        self.revision = Revision(self.revision + 1)
        for change in changes:
            entry = None if change.value is None else KeyValue(change.key, change.value, self.revision, change.lease_id)
            self._versions.setdefault(change.key, []).append(entry)
            self._revisions.setdefault(change.key, []).append(self.revision)
        committed = WatchedChanges(self.revision, changes)
        self._history.append(committed)
        if self.on_commit is not None:
            self.on_commit(committed)
        for watch in tuple(self.watches):
            watch.committed(committed)

    def _extend(self, lease_id: LeaseId, ttl_s: int) -> None:
        end_s = self.world.now_s + ttl_s
        self._leases[lease_id] = (ttl_s, end_s)
        check_s = end_s + self.world.random.uniform(0, LEASE_CHECK_S_MAX)
        self.loop.call_in_world(check_s, self._expire, lease_id, end_s)

    def _expire(self, lease_id: LeaseId, end_s: float) -> None:
        if not self.is_away and self._leases.get(lease_id, (0, 0.0))[1] == end_s:
            self.world.note(f"etcd: lease {lease_id} is over")
            self.revoke_lease(lease_id)


class EtcdClient:
    """Implements `KeyValueStore` for one process, over the network's links."""

    def __init__(self, etcd: SimulatedEtcd, network: Network, loop: ProcessLoop, host: str) -> None:
        self.etcd = etcd
        self.network = network
        self.loop = loop
        self.there = network.link(host, HOST)
        self.back = network.link(HOST, host)
        self._watches: list[Watch] = []
        self._is_closed = False

    async def read(
        self, key: str, end: str | None = None, *, revision: Revision = NO_REVISION, limit: int = 0
    ) -> Snapshot:
        return await self.call(lambda: self.etcd.read(key, end, revision, limit))

    async def commit(self, compares: Sequence[Compare], operations: Sequence[Put | Delete]) -> Commit:
        return await self.call(lambda: self.etcd.commit(compares, operations))

    def watch(self, prefix: str, *, after: Revision) -> AsyncGenerator[WatchedChanges, None]:
        watch = Watch(self, prefix, after)
        self._watches.append(watch)
        return watch

    async def grant_lease(self, ttl_ms: int) -> Lease:
        return await self.call(lambda: self.etcd.grant_lease(ttl_ms))

    async def keep_alive(self, lease_id: LeaseId) -> None:
        await self.call(lambda: self.etcd.keep_alive(lease_id))

    async def revoke_lease(self, lease_id: LeaseId) -> None:
        await self.call(lambda: self.etcd.revoke_lease(lease_id))

    async def close(self) -> None:
        self._is_closed = True
        for watch in self._watches:
            watch.broken()

    async def call(self, request: Callable[[], T]) -> T:
        """The request reaches the store after a delay, and its answer comes back after another, unless one is lost."""
        if self._is_closed:
            raise StoreUnavailable("the store is closed")
        loop, world = self.loop, self.etcd.world
        answer: asyncio.Future[T] = loop.create_future()

        def arrive() -> None:
            if self.etcd.is_away:
                self._respond(_fail, answer, StoreUnavailable("etcd has no leader"))
                return
            try:
                result = request()
            except (LeaseNotFound, RevisionCompacted) as error:
                self._respond(_fail, answer, error)
            else:
                self._respond(_succeed, answer, result)

        def send() -> None:
            self.etcd.loop.call_in_world(world.now_s + self.network.delay_s(self.there), arrive)

        if not self.there.is_cut:
            send()
        elif world.chance(0.5):
            self.there.held.append(send)  # sent again by TCP: it may arrive when the caller has long given up
        timer = loop.call_later(REQUEST_TIMEOUT_S, _fail, answer, StoreUnavailable("etcd did not answer in time"))
        try:
            return await answer
        finally:
            timer.cancel()

    def _respond(self, settle: Callable[..., None], *args: Any) -> None:
        if not self.back.is_cut:
            self.loop.call_in_world(self.etcd.world.now_s + self.network.delay_s(self.back), settle, *args)


class Watch(AsyncGenerator[WatchedChanges, None]):
    """A stream from the store to one client. It breaks rather than leave something out."""

    def __init__(self, client: EtcdClient, prefix: str, after: Revision) -> None:
        self._client = client
        self._prefix = prefix
        self._after = after
        self._has_begun = False
        self._arrived: list[WatchedChanges] = []
        self._is_broken = False
        self._failure: Exception = StoreUnavailable("the watch was interrupted")
        self._waiting: asyncio.Future[None] | None = None
        self._arrival_s = 0.0

    # At the store

    def begin(self) -> None:
        for changes in self._client.etcd.changes_after(self._prefix, self._after):
            self._send(changes)
        self._client.etcd.watches[self] = None

    def committed(self, committed: WatchedChanges) -> None:
        changes = _of_prefix(committed, self._prefix)
        if changes is not None:
            self._send(changes)

    def _send(self, changes: WatchedChanges) -> None:
        client = self._client
        if client.back.is_cut:
            client.back.held.append(lambda: self._send(changes))
            return
        now_s = client.etcd.world.now_s
        self._arrival_s = max(self._arrival_s, now_s + client.network.delay_s(client.back))
        client.loop.call_in_world(self._arrival_s, self._arrive, changes)

    # At the client

    async def asend(self, value: None) -> WatchedChanges:
        if not self._has_begun:
            self._has_begun = True
            await self._client.call(self.begin)
        while not self._arrived:
            if self._is_broken:
                raise self._failure
            self._waiting = self._client.loop.create_future()
            check = self._client.loop.call_later(WATCH_CHECK_S, self._check)
            try:
                await self._waiting
            finally:
                check.cancel()
                self._waiting = None
        return self._arrived.pop(0)

    async def athrow(self, *args: Any) -> WatchedChanges:
        raise NotImplementedError

    async def aclose(self) -> None:
        self.end()

    def _arrive(self, changes: WatchedChanges) -> None:
        if not self._is_broken:
            self._arrived.append(changes)
            self._wake()

    def _check(self) -> None:
        """A dead peer is noticed by its silence."""
        client = self._client
        if client.there.is_cut or client.back.is_cut:
            self.broken()
        elif self._waiting is not None:
            self._client.loop.call_later(WATCH_CHECK_S, self._check)

    def broken(self) -> None:
        self._is_broken = True
        self.end()
        self._wake()

    def end(self) -> None:
        self._client.etcd.watches.pop(self, None)

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


def _of_prefix(committed: WatchedChanges, prefix: str) -> WatchedChanges | None:
    changes = tuple(each for each in committed.changes if each.key.startswith(prefix))
    return WatchedChanges(committed.revision, changes) if changes else None


def _succeed(answer: asyncio.Future[Any], result: object) -> None:
    if not answer.done():
        answer.set_result(result)


def _fail(answer: asyncio.Future[Any], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)

"""The cluster's log as this broker has it: applies the entries that the watch delivers to the image, in their order.

Two tasks. `run` watches, and reads the whole metadata again when the history that it missed is compacted. `audit`
compares the newest keys with what was delivered, because a watch that hangs looks like one without changes.

Knows nothing of proposals. Whoever waits for something to happen waits for `moved`.

Invariant: the image holds the entries up to `position`, without the brokers whose registrations ended since.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from typing import Final

from penstock.broker.etcd.availability import Availability
from penstock.broker.etcd.stored_cluster import Registration, StoredCluster, load
from penstock.core.ids import BrokerId
from penstock.metadata.changes import BrokerGone, Change
from penstock.metadata.cluster_log import (
    ClusterKeys,
    Entry,
    MetadataDamaged,
    apply_changes,
    decode_entry,
    decode_head,
    decode_registration,
)
from penstock.metadata.image_difference import become, difference
from penstock.metadata.key_value_store import (
    KeyValueStore,
    Revision,
    RevisionCompacted,
    StoreRefused,
    StoreUnavailable,
    WatchedChanges,
)
from penstock.metadata.store import CommittedChanges

logger = logging.getLogger(__name__)

_RETRY_S: Final = 0.2


class FollowedLog:
    """Belongs to the event loop.

    `on_entries` is told who proposed the entries that were just applied, and whether a snapshot hides some of them;
    `on_registration_ended` which broker's registration was deleted.
    """

    def __init__(
        self,
        store: KeyValueStore,
        keys: ClusterKeys,
        cluster: StoredCluster,
        availability: Availability,
        *,
        on_entries: Callable[[set[str], bool], None],
        on_registration_ended: Callable[[BrokerId, Registration], None],
    ) -> None:
        self._store = store
        self._keys = keys
        self._availability = availability
        self._on_entries = on_entries
        self._on_registration_ended = on_registration_ended
        self.on_committed: Callable[[CommittedChanges], None] | None = None
        self.image = cluster.image
        self.head = cluster.head
        self.head_revision = cluster.head_revision
        self.registrations = cluster.registrations
        self.position = cluster.head.entry
        self._revision = cluster.revision
        self._moved = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    async def moved(self) -> None:
        """Until the watch has delivered something more, or `notify` was called."""
        await self._moved.wait()

    async def catch_up(self) -> None:
        """Until the newest head is applied. Raises what `read` raises."""
        newest = (await self._store.read(self._keys.head)).entries
        if not newest:
            raise _deleted(self._keys)
        while self.head_revision < newest[0].mod_revision:
            await self.moved()

    async def run(self) -> None:
        while True:
            self._watching = asyncio.get_running_loop().create_task(self._watch())
            try:
                await asyncio.wait([self._watching])
            finally:
                self._watching.cancel()
            if self._watching.cancelled():  # by the audit
                continue
            failure = self._watching.exception()
            try:
                if isinstance(failure, RevisionCompacted):
                    await self._reload()
                    continue
                if failure is not None:
                    raise failure
            except (StoreUnavailable, StoreRefused, RevisionCompacted) as error:
                self._availability.lost(error)
            await asyncio.sleep(_RETRY_S)

    async def audit(self, interval_s: float) -> None:
        """Ends a watch that is behind twice in a row without a change in between: `run` begins another one."""
        behind_at: Revision | None = None
        while True:
            await asyncio.sleep(interval_s)
            known_before = self._revision
            try:
                newest = await self._store.read(self._keys.brokers, self._keys.head + "\0")
            except (StoreUnavailable, StoreRefused):
                continue
            if newest.revision < known_before:
                raise MetadataDamaged(
                    f"the metadata store went back from revision {known_before} to {newest.revision}, as after it "
                    "was restored from a backup; restart the brokers"
                )
            stored = {entry.key: entry.mod_revision for entry in newest.entries if entry.key != self._keys.cluster}
            delivered = {self._keys.broker(each): known.revision for each, known in self.registrations.items()}
            if stored == {**delivered, self._keys.head: self.head_revision}:
                behind_at = None
            elif behind_at == self._revision and self._watching is not None:
                logger.warning("the watch of the metadata store hangs; watching again")
                self._watching.cancel()
                behind_at = None
            else:
                behind_at = self._revision

    async def _watch(self) -> None:
        async with contextlib.aclosing(self._store.watch(self._keys.prefix, after=self._revision)) as watched:
            async for changes in watched:
                self._apply(changes)

    def _apply(self, watched: WatchedChanges) -> None:
        entries, gone, head_value = list[tuple[str, Entry]](), list[BrokerId](), b""
        for change in sorted(watched.changes, key=lambda change: change.key):
            broker_id = self._keys.broker_id(change.key)
            if change.key.startswith(self._keys.log) and change.value is not None:
                entries.append((change.key, decode_entry(change.key, change.value)))
            elif change.key == self._keys.head:
                if change.value is None:
                    raise _deleted(self._keys)
                head_value = change.value
            elif broker_id is not None and change.value is None:
                gone.append(broker_id)
            elif broker_id is not None and change.value is not None:
                epoch = decode_registration(change.key, change.value)
                self.registrations[broker_id] = Registration(epoch, change.lease_id, watched.revision)
        self._revision = watched.revision
        for key, entry in entries:
            apply_changes(key, entry.changes, self.image)
            self.position += 1
            self._tell(entry.changes)
        if head_value:
            self.head, self.head_revision = decode_head(self._keys.head, head_value), watched.revision
            if self.head.entry != self.position:
                raise MetadataDamaged(f"{self._keys.head} names entry {self.head.entry} after entry {self.position}")
        self._on_entries({entry.proposer for _, entry in entries}, False)
        for broker_id in gone:
            self._end_registration(broker_id)
        self.notify()

    def _end_registration(self, broker_id: BrokerId) -> None:
        registration = self.registrations.pop(broker_id, None)
        if registration is None:
            return
        live = self.image.brokers.get(broker_id)
        if live is not None and live.epoch == registration.epoch:
            gone = BrokerGone(broker_id, live.epoch)
            self.image.apply(gone)
            self._tell((gone,))
        self._on_registration_ended(broker_id, registration)

    async def _reload(self) -> None:
        cluster = await load(self._store, self._keys)
        changes = difference(self.image, cluster.image)
        logger.warning("the history of the metadata is compacted: %d changes were read as one", len(changes))
        some_are_hidden = cluster.head.snapshot_entry > self.position
        ended = [item for item in self.registrations.items() if item[0] not in cluster.registrations]
        become(self.image, cluster.image)
        self.head, self.head_revision = cluster.head, cluster.head_revision
        self.registrations, self._revision = cluster.registrations, cluster.revision
        self.position = cluster.head.entry
        self._tell(tuple(changes))
        self._on_entries(cluster.proposers, some_are_hidden)
        for broker_id, registration in ended:
            self._on_registration_ended(broker_id, registration)
        self.notify()

    def _tell(self, changes: tuple[Change, ...]) -> None:
        if changes and self.on_committed is not None:
            self.on_committed(CommittedChanges(self.position, changes))

    def notify(self) -> None:
        """Wakes everything that waits for `moved`."""
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()


def _deleted(keys: ClusterKeys) -> MetadataDamaged:
    return MetadataDamaged(
        f"the metadata of the cluster at {keys.prefix} was deleted; restore it from a backup of etcd"
    )

"""Snapshots, which keep the log short: written by the broker that committed the entry with which the log got long.

The parts are written first, under a name of their own. Then the head is made to name them, in a transaction that
deletes the entries and snapshots before. Parts that no head ever named are deleted with the next snapshot.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from penstock.broker.etcd.followed_log import FollowedLog
from penstock.metadata.cluster_log import ClusterKeys, Head, encode_head, encode_snapshot
from penstock.metadata.key_value_store import (
    Compare,
    Delete,
    KeyValueStore,
    Put,
    StoreRefused,
    StoreUnavailable,
    prefix_end,
)

logger = logging.getLogger(__name__)

SNAPSHOT_ENTRIES: Final = 500


@dataclass(frozen=True, slots=True)
class _Written:
    """Parts that wait for a head to name them. `earlier` is the snapshot that it named when they were begun."""

    name: str
    entry: int
    earlier: str


class LogSnapshots:
    """`wake` is called when a snapshot waits to be installed, which is a change of the head like a proposal's."""

    def __init__(
        self,
        store: KeyValueStore,
        keys: ClusterKeys,
        log: FollowedLog,
        incarnation: str,
        wake: Callable[[], None],
        entries: int,
    ) -> None:
        self._store = store
        self._keys = keys
        self._log = log
        self._incarnation = incarnation
        self._wake = wake
        self._entries = entries
        self._writing: asyncio.Task[None] | None = None
        self._written: _Written | None = None

    @property
    def is_waiting(self) -> bool:
        return self._written is not None

    def take_if_due(self) -> None:
        head = self._log.head
        if head.entry - head.snapshot_entry >= self._entries and self._writing is None and self._written is None:
            self._writing = asyncio.get_running_loop().create_task(self._write())

    def close(self) -> None:
        if self._writing is not None:
            self._writing.cancel()

    async def _write(self) -> None:
        entry = self._log.position
        name = f"{entry:016d}-{self._incarnation}"
        earlier = self._log.head.snapshot
        try:
            # A copy, because entries are applied while the parts are written; its values are shared.
            for index, part in enumerate(encode_snapshot(self._log.image.copy())):
                await self._store.commit([], [Put(self._keys.snapshot_part(name, index), part)])
        except (StoreUnavailable, StoreRefused) as error:
            logger.info("no snapshot of the metadata was taken: %s", error)
        else:
            self._written = _Written(name, entry, earlier)
            self._wake()
        finally:
            self._writing = None

    async def install(self) -> None:
        """Makes the log begin behind the snapshot. Raises what `commit` raises.

        If another broker installed one since this one's first part was written, its transaction deleted the parts.
        """
        assert self._written is not None
        written, self._written = self._written, None
        while self._log.head.snapshot == written.earlier:
            compares = [Compare(self._keys.head, self._log.head_revision)]
            head = Head(self._log.head.entry, written.entry, written.name)
            commit = await self._store.commit(compares, self._operations(head, written.entry, written.name))
            await self._log.catch_up()
            if commit.succeeded:
                return

    def _operations(self, head: Head, entry: int, name: str) -> list[Put | Delete]:
        keys = self._keys
        return [
            Put(keys.head, encode_head(head)),
            Delete(keys.log, keys.entry(entry + 1)),
            Delete(keys.snapshots, keys.snapshot(name)),
            Delete(prefix_end(keys.snapshot(name)), prefix_end(keys.snapshots)),
        ]

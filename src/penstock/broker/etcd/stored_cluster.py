"""Reads a cluster's whole metadata from the store: snapshot, log and registrations, at one revision.

Knows the keys (`metadata/cluster_log.py`) and how many are read at a time, and nothing of watches or proposals.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from penstock.core.ids import BrokerId
from penstock.metadata.changes import BrokerGone
from penstock.metadata.cluster_log import (
    ClusterKeys,
    Head,
    MetadataDamaged,
    apply_changes,
    apply_snapshot_part,
    decode_cluster,
    decode_entry,
    decode_head,
    decode_registration,
    encode_cluster,
    encode_head,
)
from penstock.metadata.image import ClusterImage
from penstock.metadata.key_value_store import (
    NO_REVISION,
    Compare,
    KeyValue,
    KeyValueStore,
    LeaseId,
    Put,
    Revision,
    prefix_end,
)

_PAGE_KEYS: Final = 64


@dataclass(frozen=True, slots=True)
class Registration:
    epoch: int
    lease_id: LeaseId
    revision: Revision


@dataclass(slots=True)
class StoredCluster:
    """The cluster at `revision`. `proposers` made the entries that are in the log."""

    image: ClusterImage
    revision: Revision
    head: Head
    head_revision: Revision
    registrations: dict[BrokerId, Registration] = field(default_factory=dict)
    proposers: set[str] = field(default_factory=set)


async def cluster_id_of(store: KeyValueStore, keys: ClusterKeys) -> str | None:
    """The id of the cluster under the prefix; None if there is none."""
    found = (await store.read(keys.cluster)).entries
    return decode_cluster(keys.cluster, found[0].value) if found else None


async def create_cluster(store: KeyValueStore, keys: ClusterKeys, cluster_id: str) -> None:
    """Begins a cluster, unless another broker was faster."""
    await store.commit(
        [Compare(keys.cluster, NO_REVISION)],
        [Put(keys.cluster, encode_cluster(cluster_id)), Put(keys.head, encode_head(Head()))],
    )


async def load(store: KeyValueStore, keys: ClusterKeys) -> StoredCluster:
    """Raises MetadataDamaged, and what `read` raises."""
    revision, entries = await _read_all(store, keys.prefix)
    if keys.cluster not in entries or keys.head not in entries:
        raise MetadataDamaged(f"the metadata of the cluster at {keys.prefix} was deleted; restore it from a backup")
    head = decode_head(keys.head, entries[keys.head].value)
    cluster = StoredCluster(
        ClusterImage(decode_cluster(keys.cluster, entries[keys.cluster].value)),
        revision,
        head,
        entries[keys.head].mod_revision,
    )
    for key, entry in entries.items():
        # Sorted: the parts of a snapshot are in their order, and it begins "snapshot", behind "log".
        if head.snapshot and key.startswith(keys.snapshot(head.snapshot)):
            apply_snapshot_part(key, entry.value, cluster.image)
    for number in range(head.snapshot_entry + 1, head.entry + 1):
        key = keys.entry(number)
        if key not in entries:
            raise MetadataDamaged(f"{key} is missing; restore the metadata of the cluster from a backup")
        logged = decode_entry(key, entries[key].value)
        apply_changes(key, logged.changes, cluster.image)
        cluster.proposers.add(logged.proposer)
    for key, entry in entries.items():
        broker_id = keys.broker_id(key)
        if broker_id is not None:
            epoch = decode_registration(key, entry.value)
            cluster.registrations[broker_id] = Registration(epoch, entry.lease_id, entry.mod_revision)
    _remove_the_gone(cluster)
    return cluster


def _remove_the_gone(cluster: StoredCluster) -> None:
    """A registration that ended with its lease has no entry in the log."""
    for broker_id, broker in tuple(cluster.image.brokers.items()):
        registration = cluster.registrations.get(broker_id)
        if registration is None or registration.epoch != broker.epoch:
            cluster.image.apply(BrokerGone(broker_id, broker.epoch))


async def _read_all(store: KeyValueStore, prefix: str) -> tuple[Revision, dict[str, KeyValue]]:
    entries: dict[str, KeyValue] = {}
    revision, begin, end = NO_REVISION, prefix, prefix_end(prefix)
    while True:
        page = await store.read(begin, end, revision=revision, limit=_PAGE_KEYS)
        revision = revision or page.revision
        entries.update((entry.key, entry) for entry in page.entries)
        if not page.has_more:
            return revision, entries
        begin = page.entries[-1].key + "\0"

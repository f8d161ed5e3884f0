"""How a broker comes to its cluster's metadata: waits for etcd, creates or joins the cluster, ends its last session.

Everything that an operator has to repair is one line. A store that cannot be reached is none of that: the broker says
so once, and goes on when it answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from penstock.broker.etcd.broker_directory import BrokerDirectory
from penstock.broker.etcd.log_snapshots import SNAPSHOT_ENTRIES
from penstock.broker.etcd.metadata_store import EtcdMetadataStore
from penstock.broker.etcd.stored_cluster import StoredCluster, cluster_id_of, create_cluster, load
from penstock.core.clock import Clock, Entropy
from penstock.core.ids import BrokerId, uuid_text
from penstock.metadata.cluster_log import ClusterKeys, MetadataDamaged
from penstock.metadata.data_directory import StoreError
from penstock.metadata.key_value_store import KeyValueStore, LeaseId, RevisionCompacted, StoreRefused, StoreUnavailable

logger = logging.getLogger(__name__)

_RETRY_S: Final = 0.5
_POLL_S: Final = 0.2

_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    prefix: str
    broker_id: BrokerId
    session_timeout_ms: int
    heartbeat_interval_ms: int
    request_timeout_ms: int
    snapshot_entries: int = SNAPSHOT_ENTRIES


class NodeIdInUse(StoreError):
    """A live broker has this node id."""


async def open_metadata_store(
    store: KeyValueStore,
    settings: ClusterSettings,
    directory: BrokerDirectory,
    *,
    clock: Clock,
    entropy: Entropy,
    on_fatal: Callable[[str], None],
) -> EtcdMetadataStore:
    """Waits until the store answers. Raises StoreError."""
    keys = ClusterKeys(settings.prefix)
    try:
        await _joined(store, keys, directory, entropy)
        last_lease = directory.last_lease()
        if last_lease is not None:
            await _answer(lambda: store.revoke_lease(last_lease))
        cluster = await _unused_node_id(store, keys, settings)
    except MetadataDamaged as error:
        raise StoreError(f"metadata.store: {error}") from None
    except StoreRefused as error:
        raise StoreError(f"metadata.store: {error}; check its settings") from None

    def lease_taken(lease_id: LeaseId) -> None:
        try:
            directory.keep_lease(lease_id)
        except OSError as error:
            logger.warning("the lease of this broker's session is not kept for the next start: %s", error.strerror)

    return EtcdMetadataStore(
        store,
        cluster,
        keys,
        broker_id=settings.broker_id,
        incarnation=entropy.uuid().hex(),
        clock=clock,
        session_timeout_ms=settings.session_timeout_ms,
        heartbeat_interval_ms=settings.heartbeat_interval_ms,
        request_timeout_ms=settings.request_timeout_ms,
        on_lease=lease_taken,
        on_fatal=on_fatal,
        on_left=directory.close,
        snapshot_entries=settings.snapshot_entries,
    )


async def _joined(store: KeyValueStore, keys: ClusterKeys, directory: BrokerDirectory, entropy: Entropy) -> None:
    cluster_id = await _answer(lambda: cluster_id_of(store, keys))
    if cluster_id is None:
        if directory.cluster_id is not None:
            raise StoreError(
                f"metadata.store: there is no cluster at {keys.prefix}, but the data directory belongs to the cluster "
                f"{directory.cluster_id}; correct metadata.store, restore etcd from a backup, or use an empty data "
                "directory"
            )
        new_id = uuid_text(entropy.uuid())
        await _answer(lambda: create_cluster(store, keys, new_id))
        # Another broker may have been faster.
        cluster_id = await _answer(lambda: cluster_id_of(store, keys))
        assert cluster_id is not None
        if cluster_id == new_id:
            logger.warning("created the cluster %s at %s", cluster_id, keys.prefix)
    directory.join(cluster_id, entropy.uuid)


async def _unused_node_id(store: KeyValueStore, keys: ClusterKeys, settings: ClusterSettings) -> StoredCluster:
    """The cluster, once no session of this node id is left. A process that died may have left one."""
    loop = asyncio.get_running_loop()
    give_up_at = None
    while True:
        cluster = await _answer(lambda: load(store, keys))
        if settings.broker_id not in cluster.registrations:
            return cluster
        known = cluster.image.known_brokers.get(settings.broker_id)
        places = ", ".join(f"{each.host}:{each.port}" for each in known.endpoints.values()) if known else "?"
        timeout_s = settings.session_timeout_ms * 1.5 / 1000
        if give_up_at is None:
            give_up_at = loop.time() + timeout_s
            logger.warning(
                "node.id=%d is registered by the broker at %s; waiting up to %.0f s for its session to end",
                settings.broker_id,
                places,
                timeout_s,
            )
        elif loop.time() > give_up_at:
            raise NodeIdInUse(
                f"node.id={settings.broker_id} is in use by the live broker at {places}; give every broker of the "
                "cluster a node.id of its own"
            )
        await asyncio.sleep(_POLL_S)


async def _answer(call: Callable[[], Awaitable[_Value]]) -> _Value:
    """What the call returns, as soon as the store answers."""
    said = False
    while True:
        try:
            result = await call()
        except (StoreUnavailable, RevisionCompacted) as error:
            if not said:
                said = True
                logger.warning("waiting for the metadata store: %s", error)
            await asyncio.sleep(_RETRY_S)
        else:
            if said:
                logger.warning("the metadata store answers")
            return result

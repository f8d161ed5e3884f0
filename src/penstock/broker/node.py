"""One broker: its settings, the cluster as it knows it, and the topics it serves. What handlers are given.

Changes of the cluster go one way. A handler proposes a decision (`metadata/` makes it), the store commits it, and the
node carries out every change that the store has committed, on its logs and partitions. A start carries out what the
store holds and the disk lacks.

Belongs to the event loop; nothing here may be called from another thread.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from penstock.broker.access import Access, authorizer_of
from penstock.broker.appends import AppendRound
from penstock.broker.fetch_session import FetchSessionCache
from penstock.broker.flush import Flusher, sync_all
from penstock.broker.log_settings import log_config, say_without_effect
from penstock.broker.metrics import RequestMetrics, flush_time
from penstock.broker.new_logs import NewLogs
from penstock.broker.partition import Partition
from penstock.broker.producer_ids import ProducerIds
from penstock.broker.replicas import Replicas
from penstock.broker.tasks import Tasks
from penstock.broker.topic_table import TopicTable
from penstock.core import limits
from penstock.core.clock import Clock, Entropy
from penstock.core.ids import BrokerId, TopicPartition
from penstock.core.metrics import Metrics
from penstock.log.config import LogConfig
from penstock.log.filesystem import FileMoved
from penstock.log.log_directory import LogDirectory
from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.broker_config_definitions import BROKER_CONFIGS
from penstock.metadata.changes import (
    AclAdded,
    AclRemoved,
    BrokerConfigChanged,
    BrokerGone,
    BrokerImage,
    BrokerRegistered,
    BrokerShuttingDown,
    BrokerUnregistered,
    Change,
    ClientMetricsChanged,
    ClientQuotaChanged,
    ControllerElected,
    Endpoint,
    GroupConfigChanged,
    PartitionChanged,
    PartitionsAdded,
    ProducerIdsAllocated,
    ScramCredentialRemoved,
    ScramCredentialSet,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
    TopicImage,
)
from penstock.metadata.config_definition import names_without_effect
from penstock.metadata.image import ClusterImage
from penstock.metadata.store import CommittedChanges, Decide, MetadataStore, OnDecided
from penstock.metadata.topic_config import TopicConfig
from penstock.metadata.topics import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from penstock.protocol.error_codes import BrokerError
from penstock.security.authorizer import Client

if TYPE_CHECKING:
    from penstock.broker.client_quotas import ClientQuotas
    from penstock.broker.groups.coordinator import GroupCoordinator
    from penstock.broker.peers.peers import Peers
    from penstock.broker.replication.replication import Replication
    from penstock.broker.transactions.coordinator import TransactionCoordinator

logger = logging.getLogger(__name__)

_CHANGES_OF_TOPICS: Final = (TopicCreated, TopicDeleted, PartitionsAdded)


class Node:
    """Built by `main.py`; lives as long as the process."""

    def __init__(
        self,
        config: BrokerConfig,
        store: MetadataStore,
        log_directory: LogDirectory,
        loop: asyncio.AbstractEventLoop,
        on_fatal: Callable[[str], None],
        *,
        clock: Clock,
        entropy: Entropy,
        metrics: Metrics,
    ) -> None:
        self.loop = loop
        self.clock = clock
        self.entropy = entropy
        self.metrics = metrics
        self.request_metrics = RequestMetrics(metrics)
        self.now_ms = clock.now_ms
        self.store = store
        self.log_directory = log_directory
        self.topics = TopicTable()
        self._on_fatal = on_fatal
        self.tasks = Tasks(loop, on_fatal)
        self.flusher = Flusher(loop, self._log_directory_failed, flush_time(metrics))
        self.appends = AppendRound(loop, self.flusher)
        self._static_config = config
        self.config = config
        self._use_dynamic_config()
        self.authorizer = authorizer_of(self.config, self.image)
        self.producer_ids = ProducerIds(store)
        self.fetch_sessions = FetchSessionCache(
            self.config.max_incremental_fetch_session_cache_slots,
            limits.FETCH_SESSION_EVICTION_MS,
            # Only has to be hard to hit by accident; nothing is protected by it.
            lambda: entropy.randrange(1, 1 << 31),
        )
        self._groups: GroupCoordinator | None = None
        self._transactions: TransactionCoordinator | None = None
        self._peers: Peers | None = None
        self._replicas = Replicas(self)
        self.replication: Replication | None = None
        """How this broker follows others, and they follow it; None for a broker that is alone."""
        self._incarnation = b""
        self._said_without_effect: set[str] = set()
        self.quotas: ClientQuotas | None = None
        """None while no quota is set, so that requests need not be measured."""
        self._use_quotas()
        self.offline: set[TopicPartition] = set()
        """This broker's replicas whose files were moved or deleted."""
        store.subscribe(self._committed)

    # What handlers ask

    @property
    def image(self) -> ClusterImage:
        return self.store.image

    @property
    def is_clustered(self) -> bool:
        """Whether the metadata is shared with other brokers, though none of them may be live."""
        return self.store.lease_deadline_ms is not None

    @property
    def broker_id(self) -> BrokerId:
        return BrokerId(self.config.node_id)

    @property
    def groups(self) -> GroupCoordinator:
        """Built when the first client asks for a group, so that a broker without any starts without its code."""
        if self._groups is None:
            from penstock.broker.groups.coordinator import GroupCoordinator

            self._groups = GroupCoordinator(self)
        return self._groups

    @property
    def transactions(self) -> TransactionCoordinator:
        """Built when the first client asks for a transaction, or an earlier one may be unfinished."""
        if self._transactions is None:
            from penstock.broker.transactions.coordinator import TransactionCoordinator

            self._transactions = TransactionCoordinator(self)
        return self._transactions

    @property
    def peers(self) -> Peers:
        """The other brokers. Built when the first of them is needed."""
        if self._peers is None:
            from penstock.broker.peers.peers import Peers

            self._peers = Peers(self)
        return self._peers

    def resume_transactions(self) -> None:
        """Ends the transactions that a stop or a crash left open: their readers wait for that."""
        if TRANSACTION_STATE_TOPIC in self.topics or any(
            partition.log.first_unstable_offset is not None for partition in self.topics.led()
        ):
            self.transactions.resume()

    @property
    def is_fenced(self) -> bool:
        """Whether this broker must not act on its own now: the cluster may have taken its session for ended."""
        deadline_ms = self.store.lease_deadline_ms
        return deadline_ms is not None and self.clock.monotonic_ms() >= deadline_ms

    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker's registration; -1 while it has none."""
        own = self.image.brokers.get(self.broker_id)
        return own.epoch if own is not None else -1

    def replica(self, place: TopicPartition) -> Partition | None:
        """This broker's replica of a partition; None if it has none."""
        if place.topic not in self.topics:
            return None
        partitions = self.topics.topic(place.topic).partitions
        return partitions[place.partition] if place.partition < len(partitions) else None

    def access_of(self, principal: str, host: str) -> Access:
        """What a client may do that authenticated as this principal, from this address."""
        return Access(self.authorizer, Client(principal, host))

    # Files that were moved or deleted

    def leave_offline_partitions(self) -> None:
        """Coordinators let go of what they keep in partitions that went offline."""
        offline = {
            TopicPartition(each.topic_name, each.index) for each in self.topics.replicas() if each.offline_reason
        }
        for topic, index in offline - self.offline:
            self.resign(topic, index)
            partition = self.replica(TopicPartition(topic, index))
            if self.replication is not None and partition is not None:
                self.replication.role_changed(partition)
        self.offline = offline

    def lose_log_directory(self, message: str) -> None:
        """The only log directory is gone: nothing more is acknowledged, and the broker stops."""
        reason = FileMoved(self.log_directory.path)
        for partition in self.topics.replicas():
            if partition.offline_reason is None:
                partition.lose_files(reason)
        self._on_fatal(message)

    # The cluster's changes

    def register(self, endpoints: Mapping[str, Endpoint], on_decided: OnDecided) -> None:
        """Makes this broker known under the endpoints that it advertises, by listener name."""
        broker = BrokerImage(self.broker_id, endpoints, self.config.broker_rack)
        if self.store.lease_deadline_ms is None:
            self.propose(lambda image: [BrokerRegistered(broker)], on_decided)
        else:
            from penstock.broker.registration import register_in_cluster

            # One for the process: an attempt that timed out may be committed later, and the next one must be its own.
            self._incarnation = self._incarnation or self.entropy.uuid()
            register_in_cluster(self, replace(broker, incarnation=self._incarnation), on_decided)

    def open_topics(self) -> None:
        """Opens this broker's replicas of every topic in the image. Files that belong to none of them are set aside."""
        self._replicas.open_all()
        if self.store.lease_deadline_ms is not None:
            # Imported here: a broker that is alone does not need it.
            from penstock.broker.replication.replication import Replication

            self.appends.is_fenced = lambda: self.is_fenced
            self.replication = Replication(self)
            self.replication.start()

    async def hand_over(self) -> None:
        """Before a clean stop: others lead what this broker leads. Returns at once for a broker that is alone."""
        if self.replication is not None:
            from penstock.broker.replication.controlled_shutdown import hand_over

            await hand_over(self, self.replication.image_changed)

    def config_in(self, image: ClusterImage) -> BrokerConfig:
        """This broker's configuration under the dynamic settings of an image, such as one that a decision is given."""
        return self._static_config.with_dynamic(
            cluster_wide=image.dynamic_configs_of(None), per_broker=image.dynamic_configs_of(self.broker_id)
        )

    def propose(self, decide: Decide, on_decided: OnDecided) -> None:
        """Makes a change of the cluster: `decide` runs on the newest image when its turn comes. See `MetadataStore`."""
        if self.store.lease_deadline_ms is not None:
            # Another broker's proposal for the same topic may win: its logs would have the directories of this one's.
            self.store.propose(decide, on_decided)
            return
        logs = NewLogs(self)

        def decide_and_make_logs(image: ClusterImage) -> Sequence[Change]:
            logs.remove()
            changes = decide(image)
            logs.make(changes, image)
            return changes

        def decided(failure: BrokerError | None) -> None:
            if failure is not None:
                logs.remove()
            on_decided(failure)

        self.store.propose(decide_and_make_logs, decided)

    def _committed(self, committed: CommittedChanges) -> None:
        """Carries out what the store has committed, on this broker's logs and partitions."""
        try:
            for change in committed.changes:
                self._carry_out(change)
        except OSError as error:
            self._on_fatal(
                f"{self.log_directory.path}: a change of the metadata cannot be carried out: {error.strerror}; "
                "check the disk"
            )
            return
        if self.replication is not None:
            self.replication.changed()
        if self._groups is not None and any(isinstance(change, _CHANGES_OF_TOPICS) for change in committed.changes):
            self._groups.topics_changed()

    def log_starts_changed(self) -> None:
        """Records were deleted: the new log start offsets must survive a restart."""
        try:
            self.checkpoint()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            # The files of what was deleted are what makes room. They are not left for the thread that removes them.
            now_ms = self.now_ms()
            for partition in self.topics.replicas():
                self.log_directory.remove_retired(partition.log.lifecycle.take_retired(now_ms))
            self.checkpoint()

    def save_gaps(self) -> None:
        """A log has gaps from now on: the next start must not take them for damage."""
        write = self.log_directory.cleaner_checkpoint()
        if write is not None:
            write()

    def checkpoint(self) -> None:
        """Writes recovery points, log start offsets and high watermarks, so that recovery after a crash is short."""
        self.log_directory.write_checkpoints(self._high_watermarks())

    def _high_watermarks(self) -> dict[TopicPartition, int]:
        return {TopicPartition(p.topic_name, p.index): p.high_watermark for p in self.topics.replicas()}

    def close(self, *, clean: bool) -> None:
        """Closes the logs and the store. `clean` syncs everything, so that the next start needs no recovery."""
        if self._groups is not None:
            self._groups.close()
        if self._transactions is not None:
            self._transactions.close()
        self.tasks.cancel()
        if self._peers is not None:
            self._peers.close()
        self.appends.write()
        self.flusher.close()
        if clean:
            self.leave_offline_partitions()
            self.log_directory.close(
                self._high_watermarks(),
                sync_all,
                offline=self.offline,
                broker_epoch=-1 if self.store.lease_deadline_ms is None else self.broker_epoch,
            )
        self.store.close()

    def _carry_out(self, change: Change) -> None:
        match change:
            case TopicCreated(topic):
                say_without_effect(topic)
                self._replicas.serve(topic)
            case TopicDeleted():
                self._replicas.drop_deleted()
            case PartitionsAdded(topic_id, partitions):
                self._replicas.add(self.image.topics_by_id[topic_id], partitions)
            case PartitionChanged(topic_id, partition):
                self._replicas.change(self.image.topics_by_id[topic_id], partition.index)
            case TopicConfigChanged(topic_id):
                say_without_effect(self.image.topics_by_id[topic_id])
                self._replicas.reconfigure(self.image.topics_by_id[topic_id])
            case BrokerConfigChanged():
                self._use_dynamic_config()
                self._say_broker_settings_without_effect()
                for image in self.image.topics.values():
                    self._replicas.reconfigure(image)
            case ClientQuotaChanged():
                self._use_quotas()
            case AclAdded(_, binding):
                if self.authorizer is not None:
                    self.authorizer.add(binding)
            case AclRemoved():
                if self.authorizer is not None:
                    self.authorizer.replace(self.image.acls.values())
            case BrokerRegistered(broker):
                if broker.broker_id == self.broker_id and broker.incarnation == self._incarnation:
                    self._replicas.registered()
                if self.replication is not None:
                    self.replication.broker_registered(broker.broker_id)
            case BrokerGone(broker_id):
                if self.replication is not None:
                    self.replication.broker_gone(broker_id)
            case (
                ProducerIdsAllocated()
                | BrokerShuttingDown()
                | BrokerUnregistered()
                | ControllerElected()
                | GroupConfigChanged()
                | ClientMetricsChanged()
                | ScramCredentialSet()
                | ScramCredentialRemoved()
            ):
                pass  # read from the image when they are needed

    def remove_later(self, path: str) -> None:
        """Removes files in the background: a large topic takes long. The next start removes what is left."""
        self.loop.run_in_executor(None, self.log_directory.remove_deleted, path)

    def _say_broker_settings_without_effect(self) -> None:
        """Each of them once: runbooks set them again and again."""
        layers = self.config.layers
        unused = names_without_effect({**layers.cluster_wide, **layers.per_broker}, BROKER_CONFIGS)
        news = [name for name in unused if name not in self._said_without_effect]
        if news:
            self._said_without_effect.update(news)
            logger.warning("settings without effect in this version: %s", ", ".join(news))

    def _use_quotas(self) -> None:
        quotas = self.image.client_quotas
        if not quotas:
            self.quotas = None
            return
        from penstock.broker.client_quotas import ClientQuotas

        self.quotas = ClientQuotas(quotas, self.config, self.clock.monotonic_ms, self.quotas)

    def _use_dynamic_config(self) -> None:
        self.config = self.config_in(self.image)
        self.inherited_topic_config = TopicConfig.inherited(self.config.layers)

    def topic_config(self, image: TopicImage) -> TopicConfig:
        return self.inherited_topic_config.with_overrides(image.configs)

    def log_config_of(self, image: TopicImage) -> LogConfig:
        return log_config(image.name, self.topic_config(image), self.config)

    def resign(self, topic: str, index: int) -> None:
        """This broker no longer leads a partition: a coordinator that keeps its state there lets go of it."""
        if topic == GROUP_OFFSETS_TOPIC and self._groups is not None:
            self._groups.resign(index)
        elif topic == TRANSACTION_STATE_TOPIC and self._transactions is not None:
            self._transactions.resign(index)

    def _log_directory_failed(self, error: OSError) -> None:
        self._on_fatal(
            f"{self.log_directory.path}: fsync failed: {error.strerror}; nothing more can be promised, check the disk"
        )

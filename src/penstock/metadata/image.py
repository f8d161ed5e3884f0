"""The cluster image: brokers, topics, partitions, settings, users and ACLs as committed changes describe them.

The values it holds (`changes.py`) are immutable. `ClusterImage` is not: it has one owner, its metadata store, and
`apply` changes it in place, so that a change costs what it touches and not the size of the cluster. Everything else
reads it; `version` tells whether it has changed since the last look.

Must not know how changes are decided (`topics.py`, `controller.py`, `config_changes.py`, `acl_changes.py`,
`user_changes.py`) or stored (`store.py`), nor what an ACL allows (`security/authorizer.py`).

Invariants:
- `topics` and `topics_by_id` hold the same `TopicImage` objects, and no two names collide (`collision_key`).
- `partitions[i].index == i`; partitions are only ever added, at the end.
- `next_producer_id`, `last_broker_epoch`, `controller_epoch` and the partition epochs never go back.
- Every live broker is a known one with the same epoch, and an elected controller is a live broker.
- `acls` and `acl_ids` are each other's inverse: no ACL is there twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from penstock.core.acls import AclBinding
from penstock.core.credentials import ScramCredential, ScramMechanism
from penstock.core.ids import NO_LEADER, BrokerId, ProducerId, TopicId, TopicName
from penstock.core.quotas import QuotaEntity
from penstock.metadata.changes import (
    AclAdded,
    AclRemoved,
    BrokerChange,
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
    DurableChange,
    Endpoint,
    GroupConfigChanged,
    KnownBroker,
    PartitionChanged,
    PartitionImage,
    PartitionsAdded,
    ProducerIdsAllocated,
    ScramCredentialRemoved,
    ScramCredentialSet,
    TopicConfigChanged,
    TopicCreated,
    TopicDeleted,
    TopicImage,
)

_Name = TypeVar("_Name")
_Value = TypeVar("_Value")


class InvalidChange(Exception):
    """A change that does not fit the image. In a journal it is damage; from a decision it is a bug."""


def collision_key(name: str) -> str:
    """Names with the same key collide in metric names, where Kafka replaces dots with underscores."""
    return name.replace(".", "_")


class ClusterImage:
    """See the module's docstring: its store changes it, everything else reads it."""

    __slots__ = (
        "_names_by_collision_key",
        "acl_ids",
        "acls",
        "active_brokers",
        "brokers",
        "client_metrics",
        "client_quotas",
        "cluster_id",
        "controller",
        "controller_epoch",
        "dynamic_broker_configs",
        "group_configs",
        "known_brokers",
        "last_broker_epoch",
        "next_producer_id",
        "scram_credentials",
        "topics",
        "topics_by_id",
        "version",
    )

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.brokers: dict[BrokerId, BrokerImage] = {}
        """The live ones."""
        self.active_brokers: frozenset[BrokerId] = frozenset()
        """Of these, the ones that are not shutting down."""
        self.known_brokers: dict[BrokerId, KnownBroker] = {}
        """Every broker that has ever registered, live or not, until it is unregistered."""
        self.last_broker_epoch = 0
        self.controller = NO_LEADER
        """The elected controller, which is live; -1 while there is none."""
        self.controller_epoch = 0
        self.topics: dict[TopicName, TopicImage] = {}
        self.topics_by_id: dict[TopicId, TopicImage] = {}
        self.dynamic_broker_configs: dict[BrokerId | None, Mapping[str, str]] = {}
        self.group_configs: dict[str, Mapping[str, str]] = {}
        self.client_metrics: dict[str, Mapping[str, str]] = {}
        self.client_quotas: dict[QuotaEntity, Mapping[str, float]] = {}
        self.next_producer_id = ProducerId(0)
        self.acls: dict[bytes, AclBinding] = {}
        self.acl_ids: dict[AclBinding, bytes] = {}
        self.scram_credentials: dict[tuple[str, ScramMechanism], ScramCredential] = {}
        self.version = 0
        self._names_by_collision_key: dict[str, TopicName] = {}

    def copy(self) -> ClusterImage:
        """An image of its own that starts out equal to this one."""
        copied = ClusterImage(self.cluster_id)
        copied.brokers = dict(self.brokers)
        copied.active_brokers = self.active_brokers
        copied.known_brokers = dict(self.known_brokers)
        copied.last_broker_epoch = self.last_broker_epoch
        copied.controller = self.controller
        copied.controller_epoch = self.controller_epoch
        copied.topics = dict(self.topics)
        copied.topics_by_id = dict(self.topics_by_id)
        copied.dynamic_broker_configs = dict(self.dynamic_broker_configs)
        copied.group_configs = dict(self.group_configs)
        copied.client_metrics = dict(self.client_metrics)
        copied.client_quotas = dict(self.client_quotas)
        copied.next_producer_id = self.next_producer_id
        copied.acls = dict(self.acls)
        copied.acl_ids = dict(self.acl_ids)
        copied.scram_credentials = dict(self.scram_credentials)
        copied.version = self.version
        copied._names_by_collision_key = dict(self._names_by_collision_key)
        return copied

    @property
    def controller_id(self) -> BrokerId:
        """The broker that clients are told is the controller: the live one with the lowest id until one is elected."""
        return self.controller if self.controller != NO_LEADER else min(self.brokers, default=NO_LEADER)

    def endpoints(self, listener_name: str) -> Iterator[tuple[BrokerImage, Endpoint]]:
        """The brokers that can be reached on a listener of this name, each with its address there."""
        for broker in self.brokers.values():
            endpoint = broker.endpoints.get(listener_name)
            if endpoint is not None:
                yield broker, endpoint

    def dynamic_configs_of(self, broker_id: BrokerId | None) -> Mapping[str, str]:
        return self.dynamic_broker_configs.get(broker_id, {})

    def colliding_topic(self, name: TopicName) -> TopicName | None:
        """The existing topic whose name differs from `name` in dots and underscores only."""
        return self._names_by_collision_key.get(collision_key(name))

    def apply(self, change: Change) -> None:
        """Makes the change, or raises InvalidChange and leaves everything as it was."""
        match change:
            case BrokerRegistered() | BrokerGone() | BrokerShuttingDown() | BrokerUnregistered() | ControllerElected():
                self._change_brokers(change)
            case TopicCreated(topic):
                self._create(topic)
            case TopicDeleted(topic_id):
                self._delete(self._topic(topic_id))
            case PartitionsAdded(topic_id, partitions):
                topic = self._topic(topic_id)
                self._check_indexes(len(topic.partitions), partitions)
                self._replace(replace(topic, partitions=topic.partitions + partitions))
            case PartitionChanged(topic_id, partition):
                self._change_partition(topic_id, partition)
            case TopicConfigChanged(topic_id, configs):
                self._replace(replace(self._topic(topic_id), configs=dict(configs)))
            case BrokerConfigChanged(broker_id, configs):
                _configure(self.dynamic_broker_configs, broker_id, configs)
            case GroupConfigChanged(group_id, configs):
                _configure(self.group_configs, group_id, configs)
            case ClientMetricsChanged(name, configs):
                _configure(self.client_metrics, name, configs)
            case ClientQuotaChanged(entity, quotas):
                _configure(self.client_quotas, entity, quotas)
            case ProducerIdsAllocated(next_producer_id):
                if next_producer_id < self.next_producer_id:
                    raise InvalidChange(f"producer ids would go back to {next_producer_id}")
                self.next_producer_id = next_producer_id
            case AclAdded(acl_id, binding):
                self._add_acl(acl_id, binding)
            case AclRemoved(acl_id):
                if acl_id not in self.acls:
                    raise InvalidChange(f"there is no ACL with the id {acl_id.hex()}")
                del self.acl_ids[self.acls.pop(acl_id)]
            case ScramCredentialSet(user, credential):
                self.scram_credentials[user, credential.mechanism] = credential
            case ScramCredentialRemoved(user, mechanism):
                if self.scram_credentials.pop((user, mechanism), None) is None:
                    raise InvalidChange(f"the user {user!r} has no credential for {mechanism}")
        self.version += 1

    def live_broker_changes(self) -> list[BrokerChange]:
        """The changes of brokers and controller that lead from an empty image to this one."""
        changes: list[BrokerChange] = []
        if self.last_broker_epoch > max((known.epoch for known in self.known_brokers.values()), default=0):
            # The broker of the last epoch is unregistered, and its epoch must not be given again.
            last = BrokerImage(NO_LEADER, {}, epoch=self.last_broker_epoch)
            changes += (BrokerRegistered(last), BrokerUnregistered(last.broker_id))
        for known in self.known_brokers.values():
            live = self.brokers.get(known.broker_id)
            if live is not None:
                changes.append(BrokerRegistered(live))
            else:
                last = BrokerImage(known.broker_id, known.endpoints, known.rack, known.epoch, known.incarnation)
                changes += (BrokerRegistered(last), BrokerGone(known.broker_id, known.epoch))
        if self.controller_epoch:
            changes.append(ControllerElected(self.controller, self.controller_epoch))
        return changes

    def live_changes(self) -> list[DurableChange]:
        """The durable changes that lead from an empty image to this one."""
        changes: list[DurableChange] = [TopicCreated(topic) for topic in self.topics.values()]
        changes.extend(
            BrokerConfigChanged(broker_id, configs) for broker_id, configs in self.dynamic_broker_configs.items()
        )
        changes.extend(GroupConfigChanged(group_id, configs) for group_id, configs in self.group_configs.items())
        changes.extend(ClientMetricsChanged(name, configs) for name, configs in self.client_metrics.items())
        changes.extend(ClientQuotaChanged(entity, quotas) for entity, quotas in self.client_quotas.items())
        if self.next_producer_id:
            changes.append(ProducerIdsAllocated(self.next_producer_id))
        changes.extend(AclAdded(acl_id, binding) for acl_id, binding in self.acls.items())
        changes.extend(ScramCredentialSet(user, credential) for (user, _), credential in self.scram_credentials.items())
        return changes

    def _topic(self, topic_id: TopicId) -> TopicImage:
        topic = self.topics_by_id.get(topic_id)
        if topic is None:
            raise InvalidChange(f"there is no topic with the id {topic_id.hex()}")
        return topic

    def _create(self, topic: TopicImage) -> None:
        if self.colliding_topic(topic.name) is not None or topic.topic_id in self.topics_by_id:
            raise InvalidChange(f"the topic {topic.name} exists already, or another one that it collides with")
        self._check_indexes(0, topic.partitions)
        self._replace(topic)
        self._names_by_collision_key[collision_key(topic.name)] = topic.name

    def _delete(self, topic: TopicImage) -> None:
        del self.topics[topic.name]
        del self.topics_by_id[topic.topic_id]
        del self._names_by_collision_key[collision_key(topic.name)]

    def _replace(self, topic: TopicImage) -> None:
        self.topics[topic.name] = topic
        self.topics_by_id[topic.topic_id] = topic

    def _change_partition(self, topic_id: TopicId, after: PartitionImage) -> None:
        topic = self._topic(topic_id)
        if not 0 <= after.index < len(topic.partitions):
            raise InvalidChange(f"the topic {topic.name} has no partition {after.index}")
        before = topic.partitions[after.index]
        if after.partition_epoch <= before.partition_epoch:
            raise InvalidChange(f"the partition epoch of {topic.name}-{after.index} would not grow")
        if after.leader_epoch < before.leader_epoch + (after.leader != before.leader):
            raise InvalidChange(f"the leader epoch of {topic.name}-{after.index} would not grow with its leader")
        _check_replicas(topic.name, after)
        partitions = (*topic.partitions[: after.index], after, *topic.partitions[after.index + 1 :])
        self._replace(replace(topic, partitions=partitions))

    def _change_brokers(self, change: BrokerChange) -> None:
        match change:
            case BrokerRegistered(broker):
                self._register(broker)
            case BrokerGone(broker_id, epoch):
                if self._has_registered(broker_id, epoch):
                    del self.brokers[broker_id]
                    self._free_controller(broker_id)
            case BrokerShuttingDown(broker_id, epoch):
                if self._has_registered(broker_id, epoch):
                    self.brokers[broker_id] = replace(self.brokers[broker_id], is_shutting_down=True)
            case BrokerUnregistered(broker_id):
                if self.known_brokers.pop(broker_id, None) is None:
                    raise InvalidChange(f"there is no broker {broker_id}")
                self.brokers.pop(broker_id, None)
                self._free_controller(broker_id)
            case ControllerElected(broker_id, epoch):
                if epoch <= self.controller_epoch:
                    raise InvalidChange(f"the controller epoch would not grow from {self.controller_epoch}")
                if broker_id not in (*self.brokers, NO_LEADER):
                    raise InvalidChange(f"the broker {broker_id} is not live and cannot be the controller")
                self.controller, self.controller_epoch = broker_id, epoch
        self.active_brokers = frozenset(
            broker_id for broker_id, broker in self.brokers.items() if not broker.is_shutting_down
        )

    def _register(self, broker: BrokerImage) -> None:
        known = self.known_brokers.get(broker.broker_id)
        if known is not None and broker.epoch < known.epoch:
            raise InvalidChange(f"the epoch of broker {broker.broker_id} would go back from {known.epoch}")
        if known is not None and broker.epoch > known.epoch:
            self._free_controller(broker.broker_id)
        self.brokers[broker.broker_id] = broker
        self.known_brokers[broker.broker_id] = KnownBroker(
            broker.broker_id, broker.epoch, broker.incarnation, broker.rack, broker.endpoints
        )
        self.last_broker_epoch = max(self.last_broker_epoch, broker.epoch)

    def _has_registered(self, broker_id: BrokerId, epoch: int) -> bool:
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.epoch == epoch

    def _free_controller(self, broker_id: BrokerId) -> None:
        """The controller's lease is over: another one is to be elected."""
        if self.controller == broker_id:
            self.controller = NO_LEADER

    def _add_acl(self, acl_id: bytes, binding: AclBinding) -> None:
        if acl_id in self.acls or binding in self.acl_ids:
            raise InvalidChange(f"the ACL {acl_id.hex()} exists already")
        self.acls[acl_id] = binding
        self.acl_ids[binding] = acl_id

    @staticmethod
    def _check_indexes(first: int, partitions: tuple[PartitionImage, ...]) -> None:
        if [partition.index for partition in partitions] != list(range(first, first + len(partitions))):
            raise InvalidChange(f"partition numbers do not continue from {first}")


def _check_replicas(topic: TopicName, partition: PartitionImage) -> None:
    """Raises InvalidChange where one of the partition's sets holds what it must not."""
    replicas, isr, elr = set(partition.replicas), set(partition.isr), set(partition.elr)
    if not isr | elr | set(partition.adding) | set(partition.removing) <= replicas:
        raise InvalidChange(f"{topic}-{partition.index} has the replicas {partition.replicas}")
    if isr & elr:
        raise InvalidChange(f"replicas of {topic}-{partition.index} are in sync and only eligible at once")
    if partition.leader not in (*partition.isr, NO_LEADER):
        raise InvalidChange(f"the leader {partition.leader} of {topic}-{partition.index} is not in sync")


def _configure(resources: dict[_Name, Mapping[str, _Value]], name: _Name, configs: Mapping[str, _Value]) -> None:
    """A resource without settings of its own is not remembered."""
    if configs:
        resources[name] = dict(configs)
    else:
        resources.pop(name, None)

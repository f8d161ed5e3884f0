"""The cluster image: brokers, topics, partitions, settings, users and ACLs as committed changes describe them.

The values (`PartitionImage`, `TopicImage`, `BrokerImage`) are immutable. `ClusterImage` is not: it has one owner, its
metadata store, and `apply` changes it in place, so that a change costs what it touches and not the size of the cluster.
Everything else reads it; `version` tells whether it has changed since the last look.

Must not know how changes are decided (`topics.py`, `config_changes.py`, `acl_changes.py`, `user_changes.py`) or stored
(`store.py`), nor what an ACL allows (`security/authorizer.py`).

Invariants:
- `topics` and `topics_by_id` hold the same `TopicImage` objects, and no two names collide (`collision_key`).
- `partitions[i].index == i`; partitions are only ever added, at the end.
- `next_producer_id` never goes back.
- `acls` and `acl_ids` are each other's inverse: no ACL is there twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

from penstock.core.acls import AclBinding
from penstock.core.credentials import ScramCredential, ScramMechanism
from penstock.core.ids import NO_LEADER, BrokerId, LeaderEpoch, PartitionIndex, ProducerId, TopicId, TopicName
from penstock.core.quotas import QuotaEntity

_Name = TypeVar("_Name")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address that a broker advertises, and the security protocol that it speaks there."""

    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A registered broker. `endpoints` are its advertised addresses by listener name: a client that connected to one
    listener is told the addresses of that listener."""

    broker_id: BrokerId
    endpoints: Mapping[str, Endpoint]
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionImage:
    index: PartitionIndex
    leader: BrokerId
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class TopicImage:
    """`configs` holds the topic's own settings only, as text; `topic_config.py` knows what they amount to."""

    name: TopicName
    topic_id: TopicId
    partitions: tuple[PartitionImage, ...]
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    """A broker started, or advertises other endpoints than before.

    The one change that is not kept on disk: it holds while the broker is up. A journal that still named the broker's
    address after it stopped would be wrong, and etcd keeps a registration under a lease for the same reason.
    """

    broker: BrokerImage


@dataclass(frozen=True, slots=True)
class TopicCreated:
    topic: TopicImage


@dataclass(frozen=True, slots=True)
class TopicDeleted:
    topic_id: TopicId


@dataclass(frozen=True, slots=True)
class PartitionsAdded:
    """The new partitions only; their indexes continue those of the topic."""

    topic_id: TopicId
    partitions: tuple[PartitionImage, ...]


@dataclass(frozen=True, slots=True)
class PartitionChanged:
    """Another leader, which begins a new leader epoch, or other in-sync replicas in the same epoch."""

    topic_id: TopicId
    index: PartitionIndex
    leader: BrokerId
    leader_epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class TopicConfigChanged:
    """All settings of the topic from now on, not only the changed ones."""

    topic_id: TopicId
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class BrokerConfigChanged:
    """All dynamic settings of one broker, or with None those that hold for every broker, from now on."""

    broker_id: BrokerId | None
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class GroupConfigChanged:
    """All settings of the group from now on. There need not be such a group."""

    group_id: str
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ClientMetricsChanged:
    """All settings of the client metrics subscription from now on; without any it is gone."""

    name: str
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ClientQuotaChanged:
    """All quotas of the entity from now on."""

    entity: QuotaEntity
    quotas: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class ProducerIdsAllocated:
    """Every producer id below `next_producer_id` belongs to a broker and may be in use."""

    next_producer_id: ProducerId


@dataclass(frozen=True, slots=True)
class AclAdded:
    """Kafka's AccessControlEntryRecord."""

    acl_id: bytes
    binding: AclBinding


@dataclass(frozen=True, slots=True)
class AclRemoved:
    """Kafka's RemoveAccessControlEntryRecord."""

    acl_id: bytes


@dataclass(frozen=True, slots=True)
class ScramCredentialSet:
    """Kafka's UserScramCredentialRecord: new, or instead of the user's earlier one of the same mechanism."""

    user: str
    credential: ScramCredential


@dataclass(frozen=True, slots=True)
class ScramCredentialRemoved:
    """Kafka's RemoveUserScramCredentialRecord."""

    user: str
    mechanism: ScramMechanism


DurableChange = (
    TopicCreated
    | TopicDeleted
    | PartitionsAdded
    | PartitionChanged
    | TopicConfigChanged
    | BrokerConfigChanged
    | GroupConfigChanged
    | ClientMetricsChanged
    | ClientQuotaChanged
    | ProducerIdsAllocated
    | AclAdded
    | AclRemoved
    | ScramCredentialSet
    | ScramCredentialRemoved
)
Change = DurableChange | BrokerRegistered


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
        "brokers",
        "client_metrics",
        "client_quotas",
        "cluster_id",
        "dynamic_broker_configs",
        "group_configs",
        "next_producer_id",
        "scram_credentials",
        "topics",
        "topics_by_id",
        "version",
    )

    def __init__(self, cluster_id: str) -> None:
        self.cluster_id = cluster_id
        self.brokers: dict[BrokerId, BrokerImage] = {}
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
        """The broker that administrative requests should go to: until there are several, the lowest id."""
        return min(self.brokers, default=BrokerId(-1))

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
            case BrokerRegistered(broker):
                self.brokers[broker.broker_id] = broker
            case TopicCreated(topic):
                self._create(topic)
            case TopicDeleted(topic_id):
                self._delete(self._topic(topic_id))
            case PartitionsAdded(topic_id, partitions):
                topic = self._topic(topic_id)
                self._check_indexes(len(topic.partitions), partitions)
                self._replace(replace(topic, partitions=topic.partitions + partitions))
            case PartitionChanged():
                self._change_partition(change)
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

    def _change_partition(self, change: PartitionChanged) -> None:
        topic = self._topic(change.topic_id)
        index = change.index
        if not 0 <= index < len(topic.partitions):
            raise InvalidChange(f"the topic {topic.name} has no partition {index}")
        before = topic.partitions[index]
        same_leader = change.leader == before.leader
        if change.leader_epoch < before.leader_epoch + (not same_leader):
            raise InvalidChange(f"the leader epoch of {topic.name}-{index} would not grow with its leader")
        if not set(change.isr) <= set(before.replicas) or change.leader not in (*change.isr, NO_LEADER):
            raise InvalidChange(f"{topic.name}-{index} has the replicas {before.replicas}")
        after = replace(before, leader=change.leader, leader_epoch=change.leader_epoch, isr=change.isr)
        partitions = (*topic.partitions[:index], after, *topic.partitions[index + 1 :])
        self._replace(replace(topic, partitions=partitions))

    def _add_acl(self, acl_id: bytes, binding: AclBinding) -> None:
        if acl_id in self.acls or binding in self.acl_ids:
            raise InvalidChange(f"the ACL {acl_id.hex()} exists already")
        self.acls[acl_id] = binding
        self.acl_ids[binding] = acl_id

    @staticmethod
    def _check_indexes(first: int, partitions: tuple[PartitionImage, ...]) -> None:
        if [partition.index for partition in partitions] != list(range(first, first + len(partitions))):
            raise InvalidChange(f"partition numbers do not continue from {first}")


def _configure(resources: dict[_Name, Mapping[str, _Value]], name: _Name, configs: Mapping[str, _Value]) -> None:
    """A resource without settings of its own is not remembered."""
    if configs:
        resources[name] = dict(configs)
    else:
        resources.pop(name, None)

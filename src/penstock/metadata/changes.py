"""What the cluster image holds, and the changes that it is made of: immutable values, which every node shares.

Must not know how changes are decided (`topics.py`, `controller.py` and their neighbours), applied (`image.py`) or
stored (`store.py`).

Invariant: a change carries the whole new state of what it changes. A node that missed changes can therefore be given
one that leads from any earlier state to the newest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.core.acls import AclBinding
from penstock.core.credentials import ScramCredential, ScramMechanism
from penstock.core.ids import NO_LEADER, BrokerId, LeaderEpoch, PartitionIndex, ProducerId, TopicId, TopicName
from penstock.core.quotas import QuotaEntity


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address that a broker advertises, and the security protocol that it speaks there."""

    host: str
    port: int
    security_protocol: str = "PLAINTEXT"


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A broker that is registered now. `endpoints` are its advertised addresses by listener name: a client that
    connected to one listener is told the addresses of that listener.

    `epoch` is that of the registration and `incarnation` that of the process: a process whose lease was lost registers
    again under another epoch. A broker that is shutting down still serves, and should lead nothing.
    """

    broker_id: BrokerId
    endpoints: Mapping[str, Endpoint]
    rack: str | None = None
    epoch: int = 0
    incarnation: bytes = b""
    is_shutting_down: bool = False


@dataclass(frozen=True, slots=True)
class KnownBroker:
    """The last registration of a broker, whether it is live or not. Only UnregisterBroker removes it."""

    broker_id: BrokerId
    epoch: int
    incarnation: bytes
    rack: str | None
    endpoints: Mapping[str, Endpoint]


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """`elr` are the eligible leader replicas of KIP-966: not in sync, and known to hold every committed record.

    `last_known_leader` led last, where the partition has no leader. `adding` and `removing` belong to a reassignment:
    `replicas` holds both until it is complete. `partition_epoch` grows with every change of the partition.
    """

    index: PartitionIndex
    leader: BrokerId
    leader_epoch: LeaderEpoch
    replicas: tuple[BrokerId, ...]
    isr: tuple[BrokerId, ...]
    elr: tuple[BrokerId, ...] = ()
    last_known_leader: BrokerId = NO_LEADER
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()
    partition_epoch: int = 0


@dataclass(frozen=True, slots=True)
class TopicImage:
    """`configs` holds the topic's own settings only, as text; `topic_config.py` knows what they amount to."""

    name: TopicName
    topic_id: TopicId
    partitions: tuple[PartitionImage, ...]
    configs: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BrokerRegistered:
    """A broker started, lost its lease and returned, or advertises other endpoints than before.

    Holds while the broker is up. A journal that still named the broker's address after it stopped would be wrong, and
    etcd keeps a registration under a lease for the same reason.
    """

    broker: BrokerImage


@dataclass(frozen=True, slots=True)
class BrokerGone:
    """The broker's lease is over, or it has stopped. An epoch that is not the broker's newest changes nothing."""

    broker_id: BrokerId
    epoch: int


@dataclass(frozen=True, slots=True)
class BrokerShuttingDown:
    """A controlled shutdown has begun. An epoch that is not the broker's newest changes nothing."""

    broker_id: BrokerId
    epoch: int


@dataclass(frozen=True, slots=True)
class BrokerUnregistered:
    """The broker has left the cluster for good."""

    broker_id: BrokerId


@dataclass(frozen=True, slots=True)
class ControllerElected:
    """The broker that looks after leaders and in-sync replicas; -1 for none. `epoch` grows with each election."""

    broker_id: BrokerId
    epoch: int


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
    """The whole new state of a partition. Its leader epoch grows with another leader, its partition epoch always."""

    topic_id: TopicId
    partition: PartitionImage


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
BrokerChange = BrokerRegistered | BrokerGone | BrokerShuttingDown | BrokerUnregistered | ControllerElected
"""Which brokers there are, and which of them is the controller. A journal holds none of these: it has one broker."""
Change = DurableChange | BrokerChange

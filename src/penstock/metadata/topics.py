"""Decisions about topics: creation, deletion, more partitions. Each returns a change or raises a BrokerError.

Must not know requests, and changes no image: a handler builds a `NewTopic` from its message, and the store commits the
change that is returned. Ids of new topics arrive as arguments.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.core.ids import NO_LEADER, BrokerId, LeaderEpoch, PartitionIndex, TopicId, TopicName
from penstock.metadata.changes import PartitionImage, PartitionsAdded, TopicCreated, TopicDeleted, TopicImage
from penstock.metadata.config_definition import ConfigError
from penstock.metadata.image import ClusterImage, collision_key
from penstock.metadata.placement import place_partitions
from penstock.metadata.topic_config import TopicConfig, validate_overrides
from penstock.protocol.error_codes import BrokerError, ErrorCode

TOPIC_NAME_LENGTH_MAX: Final = 249
USE_DEFAULT: Final = -1
PARTITIONS_PER_CHANGE_MAX: Final = 10_000
"""As Kafka's controller: one request must not be able to fill the disk with directories."""

GROUP_OFFSETS_TOPIC: Final = TopicName("__consumer_offsets")
TRANSACTION_STATE_TOPIC: Final = TopicName("__transaction_state")
SHARE_STATE_TOPIC: Final = TopicName("__share_group_state")
INTERNAL_TOPICS: Final = frozenset({GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_STATE_TOPIC})
# Kafka's log of cluster metadata. No broker may offer a topic of this name to clients.
CLUSTER_METADATA_TOPIC: Final = TopicName("__cluster_metadata")

_LEGAL_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


@dataclass(frozen=True, slots=True)
class NewTopic:
    """The topic that a client asks for, unchecked. `assignment` gives brokers by partition and replaces both counts."""

    name: str
    partition_count: int = USE_DEFAULT
    replication_factor: int = USE_DEFAULT
    assignment: Sequence[tuple[int, Sequence[int]]] = ()
    configs: Sequence[tuple[str, str | None]] = ()


@dataclass(frozen=True, slots=True)
class TopicDefaults:
    """The broker's defaults for settings that a request leaves out."""

    partition_count: int
    replication_factor: int
    config: TopicConfig


def is_internal(name: str) -> bool:
    return name in INTERNAL_TOPICS


def validate_topic_name(name: str) -> TopicName:
    """The name, now known to be legal; INVALID_TOPIC_EXCEPTION otherwise."""
    if not name:
        reason = "A topic's name must not be empty."
    elif name in (".", ".."):
        reason = f"A topic cannot be named {name!r}."
    elif len(name) > TOPIC_NAME_LENGTH_MAX:
        reason = f"A topic's name has at most {TOPIC_NAME_LENGTH_MAX} characters, this one has {len(name)}."
    elif not _LEGAL_NAME.fullmatch(name):
        reason = f"The topic name {name!r} holds other characters than ASCII letters, digits, '.', '_' and '-'."
    else:
        return TopicName(name)
    raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, reason)


def find_partition(image: ClusterImage, topic: str | TopicId, index: int) -> TopicImage:
    """The topic that has this partition, wherever it is led. Unknown names and unknown ids have codes of their own."""
    if isinstance(topic, str):
        found = image.topics.get(TopicName(topic))
        if found is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {_shown(topic)!r}.")
    else:
        found = image.topics_by_id.get(topic)
        if found is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID, f"There is no topic with the id {topic.hex()}.")
    if not 0 <= index < len(found.partitions):
        raise BrokerError(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            f"Topic {found.name!r} has partitions 0 to {len(found.partitions) - 1}, not {index}.",
        )
    return found


def decide_creations(
    image: ClusterImage, wanted: Sequence[NewTopic], defaults: TopicDefaults, new_topic_id: Callable[[], TopicId]
) -> dict[str, TopicCreated | BrokerError]:
    """The topics of one request, by name: each is decided by itself, and against the others of the request."""
    decisions: dict[str, TopicCreated | BrokerError] = {}
    names_by_key: dict[str, str] = {}
    partition_count = 0
    for position, topic in enumerate(wanted):
        try:
            # First of all: a request with a million invalid topics must not keep the broker busy.
            _check_partitions_per_change(position + 1)
            if topic.name in decisions:
                raise BrokerError(ErrorCode.INVALID_REQUEST, f"Topic {_shown(topic.name)!r} is given twice.")
            change = decide_creation(image, topic, defaults, new_topic_id())
            colliding = names_by_key.setdefault(collision_key(topic.name), topic.name)
            if colliding != topic.name:
                raise _collision(topic.name, colliding)
            partition_count += len(change.topic.partitions)
            _check_partitions_per_change(partition_count)
            decisions[topic.name] = change
        except BrokerError as error:
            decisions[topic.name] = error.to_keep()
    return decisions


def decide_creation(image: ClusterImage, wanted: NewTopic, defaults: TopicDefaults, topic_id: TopicId) -> TopicCreated:
    """The new topic, or the BrokerError that refuses it."""
    name = validate_topic_name(wanted.name)
    if name == CLUSTER_METADATA_TOPIC:
        raise BrokerError(ErrorCode.INVALID_REQUEST, f"{name} is reserved for the cluster's own metadata.")
    if name in image.topics:
        raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic {name!r} already exists.")
    colliding = image.colliding_topic(name)
    if colliding is not None:
        raise _collision(name, colliding)
    if wanted.assignment:
        replicas = _checked_assignment(image, wanted)
    else:
        replicas = _placed(image, wanted, defaults, topic_id)
    _check_partitions_per_change(len(replicas))
    configs = _checked_configs(wanted, defaults)
    partitions = tuple(_new_partition(image, index, brokers) for index, brokers in enumerate(replicas))
    return TopicCreated(TopicImage(name, topic_id, partitions, configs))


def decide_deletion(
    image: ClusterImage, *, name: str | None, topic_id: TopicId | None, delete_enabled: bool
) -> TopicDeleted:
    """Deletion of the topic that is named by name or by id; if unknown, the two have codes of their own."""
    if name is not None:
        topic = image.topics.get(TopicName(name))
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {_shown(name)!r}.")
    else:
        topic = image.topics_by_id.get(topic_id) if topic_id is not None else None
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID)
    if not delete_enabled:
        raise BrokerError(ErrorCode.TOPIC_DELETION_DISABLED)
    return TopicDeleted(topic.topic_id)


def decide_more_partitions(
    image: ClusterImage, name: str, total_count: int, assignments: Sequence[Sequence[int]] | None
) -> PartitionsAdded:
    """The partitions that bring the topic to `total_count`. A topic never shrinks: its keys would change partitions."""
    topic = image.topics.get(TopicName(name))
    if topic is None:
        raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {_shown(name)!r}.")
    current = len(topic.partitions)
    if total_count == current:
        raise BrokerError(ErrorCode.INVALID_PARTITIONS, f"Topic {name!r} already has {current} partitions.")
    if total_count < current:
        raise BrokerError(
            ErrorCode.INVALID_PARTITIONS,
            f"Topic {name!r} has {current} partitions, which cannot be reduced to {total_count}.",
        )
    added = total_count - current
    _check_partitions_per_change(added)
    replication_factor = len(topic.partitions[0].replicas)
    if assignments is None:
        replicas = place_partitions(image, added, replication_factor, first=current)
    else:
        if len(assignments) != added:
            raise BrokerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"{added} partitions are to be added, and {len(assignments)} assignments were given.",
            )
        replicas = [
            _checked_replicas(image, current + position, brokers, replication_factor)
            for position, brokers in enumerate(assignments)
        ]
    partitions = tuple(_new_partition(image, current + position, brokers) for position, brokers in enumerate(replicas))
    return PartitionsAdded(topic.topic_id, partitions)


def _placed(
    image: ClusterImage, wanted: NewTopic, defaults: TopicDefaults, topic_id: TopicId
) -> list[tuple[BrokerId, ...]]:
    partition_count = defaults.partition_count if wanted.partition_count == USE_DEFAULT else wanted.partition_count
    replication_factor = (
        defaults.replication_factor if wanted.replication_factor == USE_DEFAULT else wanted.replication_factor
    )
    if partition_count < 1:
        raise BrokerError(
            ErrorCode.INVALID_PARTITIONS, f"The number of partitions must be at least 1, not {partition_count}."
        )
    if replication_factor < 1:
        raise BrokerError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"The replication factor must be at least 1, not {replication_factor}.",
        )
    _check_partitions_per_change(partition_count)
    # The id is random, so small topics do not all begin on the same broker.
    first = int.from_bytes(topic_id[-2:], "big")
    return place_partitions(image, partition_count, replication_factor, first=first)


def _checked_assignment(image: ClusterImage, wanted: NewTopic) -> list[tuple[BrokerId, ...]]:
    if wanted.partition_count != USE_DEFAULT or wanted.replication_factor != USE_DEFAULT:
        raise BrokerError(
            ErrorCode.INVALID_REQUEST, "An assignment of replicas excludes a partition count and a replication factor."
        )
    assignment = dict(wanted.assignment)
    if sorted(index for index, _ in wanted.assignment) != list(range(len(wanted.assignment))):
        raise BrokerError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The assigned partitions must be numbered from 0 without a gap."
        )
    replication_factor = len(assignment[0])
    return [_checked_replicas(image, index, assignment[index], replication_factor) for index in range(len(assignment))]


def _checked_configs(wanted: NewTopic, defaults: TopicDefaults) -> dict[str, str]:
    configs: dict[str, str] = {}
    for name, value in wanted.configs:
        if value is None:
            raise BrokerError(ErrorCode.INVALID_CONFIG, f"{name[:100]} has a null value; leave it out.")
        configs[name] = value
    try:
        validate_overrides(configs, defaults.config)
    except ConfigError as error:
        raise BrokerError(ErrorCode.INVALID_CONFIG, str(error)) from None
    return configs


def _checked_replicas(
    image: ClusterImage, index: int, brokers: Sequence[int], replication_factor: int
) -> tuple[BrokerId, ...]:
    replicas = tuple(BrokerId(broker) for broker in brokers)
    if not replicas:
        reason = f"Partition {index} has no replicas."
    elif len(set(replicas)) != len(replicas):
        reason = f"Partition {index} has the same broker twice."
    elif len(replicas) != replication_factor:
        reason = f"Partition {index} has {len(replicas)} replicas where the others have {replication_factor}."
    elif unknown := [broker for broker in replicas if broker not in image.known_brokers]:
        reason = f"Partition {index} is assigned to broker {unknown[0]}, which is not registered."
    elif image.active_brokers.isdisjoint(replicas):
        reason = f"Partition {index} is assigned to brokers that are all down or stopping."
    else:
        return replicas
    raise BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)


def _new_partition(image: ClusterImage, index: int, replicas: tuple[BrokerId, ...]) -> PartitionImage:
    in_sync = tuple(broker for broker in replicas if broker in image.active_brokers)
    leader = in_sync[0] if in_sync else NO_LEADER
    return PartitionImage(PartitionIndex(index), leader, LeaderEpoch(0), replicas, in_sync)


def _collision(name: str, existing: str) -> BrokerError:
    return BrokerError(
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        f"Topic {name!r} collides with the topic {existing!r}: they differ in '.' and '_' only.",
    )


def _check_partitions_per_change(count: int) -> None:
    if count > PARTITIONS_PER_CHANGE_MAX:
        raise BrokerError(
            ErrorCode.POLICY_VIOLATION,
            f"{count} partitions are more than one request may create ({PARTITIONS_PER_CHANGE_MAX}).",
        )


def _shown(name: str) -> str:
    return name if len(name) <= TOPIC_NAME_LENGTH_MAX else name[:TOPIC_NAME_LENGTH_MAX] + "..."

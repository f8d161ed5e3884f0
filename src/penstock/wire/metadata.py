"""The cluster as a Metadata response describes it: brokers, topics with their ids, partitions with their leaders.

Plain data, and its conversion from the response. It must never know connections.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from penstock.protocol.definitions.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from penstock.protocol.error_codes import ErrorCode
from penstock.wire.connection import Address
from penstock.wire.errors import Right, require_success

# Codes of a topic that does not exist, or is still being created.
_ABSENT: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.UNKNOWN_TOPIC_ID}
)


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """`leader_id` is NO_LEADER while the partition has none."""

    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    name: str
    topic_id: bytes
    is_internal: bool
    partitions: Mapping[int, PartitionMetadata]


@dataclass(frozen=True, slots=True)
class ClusterMetadata:
    cluster_id: str | None = None
    controller_id: int = -1
    brokers: Mapping[int, Address] = field(default_factory=dict)
    topics: Mapping[str, TopicMetadata] = field(default_factory=dict)
    """The existing topics; a requested topic that is missing does not exist."""


def metadata_request(topics: Iterable[str] | None, *, allow_auto_topic_creation: bool) -> MetadataRequest:
    """None requests all topics."""
    return MetadataRequest(
        topics=None if topics is None else [MetadataRequestTopic(name=name) for name in topics],
        allow_auto_topic_creation=allow_auto_topic_creation,
    )


def read_metadata(response: MetadataResponse) -> ClusterMetadata:
    """Raises BrokerError for a topic that this client is not authorized to describe."""
    require_success(response.error_code, "cluster metadata")
    topics = {}
    for topic in response.topics:
        if topic.error_code in _ABSENT:
            continue
        needed = Right("Describe", "topic", topic.name or "")
        require_success(topic.error_code, f"topic '{topic.name}'", needs=(needed,))
        topics[topic.name or ""] = _topic(topic)
    return ClusterMetadata(
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        brokers={broker.node_id: Address(broker.host, broker.port) for broker in response.brokers},
        topics=topics,
    )


def _topic(topic: MetadataResponseTopic) -> TopicMetadata:
    return TopicMetadata(
        name=topic.name or "",
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions={
            partition.partition_index: PartitionMetadata(
                leader_id=partition.leader_id,
                leader_epoch=partition.leader_epoch,
                replicas=tuple(partition.replica_nodes),
                in_sync_replicas=tuple(partition.isr_nodes),
            )
            for partition in sorted(topic.partitions, key=lambda each: each.partition_index)
        },
    )

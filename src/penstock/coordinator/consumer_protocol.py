"""The embedded protocol of classic consumers: subscriptions and assignments as bytes that start with their version.

Kafka guarantees that a version begins like the ones before it: a version from the future is read as the newest known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.coordinator.topic_partitions import by_topic
from penstock.core.errors import ProtocolError
from penstock.core.ids import TopicIdPartition
from penstock.protocol.codec import reader, writer
from penstock.protocol.definitions.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from penstock.protocol.definitions.consumer_protocol_subscription import ConsumerProtocolSubscription

_NEWEST: Final = 3
_VERSION_BYTES: Final = 2


@dataclass(frozen=True, slots=True)
class Subscription:
    topics: tuple[str, ...]
    owned: frozenset[TopicIdPartition]
    rack_id: str | None


def read_subscription(metadata: bytes, topic_ids: Mapping[str, bytes]) -> Subscription:
    """Raises ProtocolError. Owned partitions of topics that do not exist are left out."""
    read = reader(ConsumerProtocolSubscription, version_of(metadata))
    content, _ = read(memoryview(metadata), _VERSION_BYTES, len(metadata))
    owned = _partitions(content.owned_partitions, topic_ids)
    return Subscription(tuple(sorted(set(content.topics))), owned, content.rack_id or None)


def read_assignment(assignment: bytes, topic_ids: Mapping[str, bytes]) -> frozenset[TopicIdPartition]:
    """Raises ProtocolError; also for data of an assignor of the client's own, which would be lost."""
    if not assignment:
        return frozenset()
    read = reader(ConsumerProtocolAssignment, version_of(assignment))
    content, _ = read(memoryview(assignment), _VERSION_BYTES, len(assignment))
    if content.user_data:
        raise ProtocolError("the assignment holds data of an assignor of the client's own")
    return _partitions(content.assigned_partitions, topic_ids)


def write_assignment(partitions: Iterable[TopicIdPartition], topic_names: Mapping[bytes, str], version: int) -> bytes:
    """Partitions of topics that were deleted are left out."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            TopicPartition(topic=topic_names[topic_id], partitions=list(indexes))
            for topic_id, indexes in by_topic(partitions)
            if topic_id in topic_names
        ]
    )
    out = bytearray(version.to_bytes(_VERSION_BYTES, "big"))
    writer(ConsumerProtocolAssignment, version)(out, message)
    return bytes(out)


def version_of(content: bytes) -> int:
    if len(content) < _VERSION_BYTES:
        raise ProtocolError("a subscription or assignment has no version")
    version = int.from_bytes(content[:_VERSION_BYTES], "big", signed=True)
    if version < 0:
        raise ProtocolError(f"{version} is no version of a subscription or assignment")
    return min(version, _NEWEST)


def _partitions(topics: Iterable[Any], topic_ids: Mapping[str, bytes]) -> frozenset[TopicIdPartition]:
    return frozenset(
        TopicIdPartition(topic_ids[topic.topic], index)
        for topic in topics
        if topic.topic in topic_ids
        for index in topic.partitions
    )

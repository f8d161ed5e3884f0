"""Topics and partitions of consumer groups: a partition by topic id, and of a topic what an assignment needs.

Groups keep partitions as flat sets of `TopicIdPartition`, which reconciliation compares. Messages and records list them
by topic: see `by_topic`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from penstock.core.ids import TopicIdPartition


@dataclass(frozen=True, slots=True)
class Topic:
    topic_id: bytes
    name: str
    partition_count: int


TopicCatalogue: TypeAlias = Mapping[str, Topic]
"""The topics of the cluster, by name."""

PartitionsByTopic: TypeAlias = tuple[tuple[bytes, tuple[int, ...]], ...]


def by_topic(partitions: Iterable[TopicIdPartition]) -> PartitionsByTopic:
    """One entry per topic; topics and partitions are sorted."""
    grouped: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        grouped.setdefault(topic_id, []).append(partition)
    return tuple((topic_id, tuple(indexes)) for topic_id, indexes in grouped.items())

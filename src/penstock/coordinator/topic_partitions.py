"""Topics and partitions as groups see them: a partition by its topic's id, a topic by what an assignment needs of it.

Partitions are kept flat, as sets of `TopicIdPartition`, because that is what reconciling compares; messages and records
list them by topic, which is what `by_topic` is for.
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
"""The topics of the cluster by name."""

PartitionsByTopic: TypeAlias = tuple[tuple[bytes, tuple[int, ...]], ...]


def by_topic(partitions: Iterable[TopicIdPartition]) -> PartitionsByTopic:
    """One entry per topic, topics and partitions in order."""
    grouped: dict[bytes, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        grouped.setdefault(topic_id, []).append(partition)
    return tuple((topic_id, tuple(indexes)) for topic_id, indexes in grouped.items())

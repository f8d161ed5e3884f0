"""The output of `penstock topic describe`: the lines of kafka-topics.sh with offsets and sizes, or JSON.

Invariant: an unknown value is `-` or `N/A` in text and null in JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penstock.cli.topic_contents import UNKNOWN_CONTENTS, PartitionContents
from penstock.cli.topic_replicas import Replicas, replica_fields, replicas_json
from penstock.client.admin import TopicDescription
from penstock.core.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class Described:
    """A topic with what all brokers say of it."""

    topic: TopicDescription
    replicas: Mapping[TopicPartition, Replicas]
    contents: Mapping[TopicPartition, PartitionContents]
    only_under_replicated: bool = False
    only_unavailable: bool = False

    @property
    def partitions(self) -> list[tuple[TopicPartition, Replicas, PartitionContents]]:
        """The wanted ones, in order."""
        every = (TopicPartition(self.topic.name, each.partition) for each in self.topic.partitions)
        return [
            (each, self.replicas[each], self.contents.get(each, UNKNOWN_CONTENTS))
            for each in every
            if self._is_wanted(self.replicas[each])
        ]

    def _is_wanted(self, replicas: Replicas) -> bool:
        sets = replicas.sets
        if not (self.only_under_replicated or self.only_unavailable):
            return True
        return (self.only_under_replicated and sets.is_under_replicated) or (self.only_unavailable and sets.is_offline)


def as_json_value(described: Described, without_effect: Sequence[str]) -> dict[str, Any]:
    topic = described.topic
    held = [described.contents.get(TopicPartition(topic.name, each.partition)) for each in topic.partitions]
    known = [each or UNKNOWN_CONTENTS for each in held]
    return {
        "topic": topic.name,
        "topic_id": topic.topic_id,
        "internal": topic.internal,
        "replication_factor": topic.replication_factor,
        "configs": dict(topic.overrides),
        "configs_without_effect": [name for name in without_effect if name in topic.overrides],
        "records": _sum(each.records for each in known),
        "size_bytes": _sum(each.size_bytes for each in known),
        "partitions": [
            {
                "partition": partition.partition,
                **replicas_json(replicas),
                "start_offset": contents.start_offset,
                "end_offset": contents.end_offset,
                "records": contents.records,
                "size_bytes": contents.size_bytes,
            }
            for partition, replicas, contents in described.partitions
        ],
    }


def as_text(described: Described) -> str:
    """The lines of kafka-topics.sh --describe; offsets and sizes follow its fields."""
    topic = described.topic
    lines = [replica_fields(each, replicas) + _contents_text(held) for each, replicas, held in described.partitions]
    if described.only_under_replicated or described.only_unavailable:
        return "\n".join(lines)
    configs = ",".join(f"{key}={value}" for key, value in topic.overrides.items())
    title = (
        f"Topic: {topic.name}\tTopicId: {topic.topic_id}\tPartitionCount: {len(topic.partitions)}"
        f"\tReplicationFactor: {topic.replication_factor}\tConfigs: {configs}"
    )
    return "\n".join([title, *lines])


def _contents_text(held: PartitionContents) -> str:
    fields = {
        "StartOffset": held.start_offset,
        "EndOffset": held.end_offset,
        "Records": held.records,
        "Bytes": held.size_bytes,
    }
    return "".join(f"\t{name}: {'-' if value is None else value}" for name, value in fields.items())


def _sum(values: Iterable[int | None]) -> int | None:
    """None if one of them is unknown."""
    known = list(values)
    return None if None in known else sum(value or 0 for value in known)

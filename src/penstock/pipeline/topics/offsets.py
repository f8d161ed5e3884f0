"""How far a query has read, and the JSON that Spark keeps of it: `{"orders": {"0": 5, "1": 7}}`, as of its own source.

Owns the two forms and the way between them. It must never know how offsets are found out.

An offset may carry one thing more, under a name that no topic can have: where partitions began that do not go on where
the last offset left them. Spark asks a source for its first offset again after a crash, and `latest` would then be
another place; what stands in the offset log next to the end of the batch cannot change. The same holds for a partition
that was added while the query ran, and for one that was created again.

Invariants:
- Equal positions have equal JSON: topics are sorted by name, partitions by number. Spark compares the text.
- Offsets are exclusive ends: the next record to be read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.core.ids import TopicPartition
from penstock.pipeline.topics.errors import UnknownOffsetError

__all__ = [
    "STARTS_KEY",
    "Offsets",
    "StreamOffset",
    "TopicPartition",
    "by_topic",
    "decode",
    "decode_json",
    "encode",
    "lag",
]

STARTS_KEY: Final = "@start"
"""Topic names are made of letters, digits, dot, underscore and hyphen."""


Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """Where a batch ends, and where those partitions begin in it that do not begin at the end of the batch before."""

    ends: Offsets
    starts: Offsets = field(default_factory=dict)


def encode(offset: StreamOffset) -> dict[str, Any]:
    starts = {STARTS_KEY: by_topic(offset.starts)} if offset.starts else {}
    return starts | by_topic(offset.ends)


def decode(stored: Mapping[str, Any]) -> StreamOffset:
    """Takes what `encode` made, and what Spark's own Kafka source left in a checkpoint."""
    topics = dict(stored)
    starts = topics.pop(STARTS_KEY, {})
    return StreamOffset(ends=_by_partition(topics), starts=_by_partition(starts))


def decode_json(text: str) -> StreamOffset:
    """The same for the text in a query's progress or in its offset log."""
    stored = json.loads(text)
    if not isinstance(stored, dict):
        raise UnknownOffsetError(f"not an offset of this source: {text[:200]}")
    return decode(stored)


def by_topic(offsets: Offsets) -> dict[str, dict[str, int]]:
    nested: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        nested.setdefault(topic, {})[str(partition)] = offset
    return nested


def lag(ends: Offsets, latest: Offsets) -> dict[TopicPartition, int]:
    """Offsets in each partition that were there to be read and have not been. It counts offsets, as Spark's own source
    does: control records and those that compaction removed are among them."""
    return {
        partition: max(0, latest_offset - ends.get(partition, 0)) for partition, latest_offset in sorted(latest.items())
    }


def _by_partition(topics: Mapping[str, Any]) -> dict[TopicPartition, int]:
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partitions in topics.items()
            for partition, offset in partitions.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise UnknownOffsetError(
            "the checkpoint holds an offset that this source did not write; is it another query's? "
            "Give this query a checkpointLocation of its own"
        ) from None

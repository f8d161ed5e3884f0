"""Small text files of a data directory, in Kafka's formats.

Owns: the `topic partition offset` checkpoints of a data directory, and `partition.metadata` of a partition.
Must never know: what the offsets mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.core.ids import TopicPartition, uuid_bytes, uuid_text

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
CLEANER_OFFSETS: Final = "cleaner-offset-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"

_VERSION: Final = 0


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    lines = [str(_VERSION), str(len(offsets))]
    lines += [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    return ("\n".join(lines) + "\n").encode()


def decode_offsets(content: bytes) -> dict[TopicPartition, int] | None:
    """None if this is not a complete checkpoint."""
    try:
        version, count, *lines = content.decode().split("\n")
        rows = [line.split(" ") for line in lines[:-1]]
        offsets = {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in rows}
        whole = int(version) == _VERSION and int(count) == len(offsets) == len(rows) and lines[-1:] == [""]
    except ValueError:
        return None
    return offsets if whole and all(offset >= 0 for offset in offsets.values()) else None


def encode_partition_metadata(topic_id: bytes) -> bytes:
    return f"version: {_VERSION}\ntopic_id: {uuid_text(topic_id)}\n".encode()


def decode_partition_metadata(content: bytes) -> bytes | None:
    """The topic id; None if the content is invalid."""
    try:
        version, topic_id, end = content.decode().split("\n")
        if version != f"version: {_VERSION}" or not topic_id.startswith("topic_id: ") or end:
            return None
        return uuid_bytes(topic_id.removeprefix("topic_id: "))
    except ValueError:
        return None

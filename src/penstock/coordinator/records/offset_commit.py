"""The record of a committed offset, by group, topic and partition."""

from __future__ import annotations

from typing import Final

from penstock.coordinator.records.codec import RecordKind
from penstock.protocol.schema import INT32, INT64, STRING, UUID, Message, wire


class OffsetCommitKey(Message, versions=(0, 0)):
    group: str = wire(STRING)
    topic: str = wire(STRING)
    partition: int = wire(INT32)


class OffsetCommitValue(Message, versions=(0, 4), flexible_since=4):
    offset: int = wire(INT64)
    leader_epoch: int = wire(INT32, since=3, default=-1)
    metadata: str = wire(STRING)
    commit_timestamp: int = wire(INT64)
    expire_timestamp: int = wire(INT64, since=1, until=1, default=-1)
    topic_id: bytes = wire(UUID, since=4, tag=0)


# Type 0 is that of Kafka before 0.9.
OFFSET_COMMIT: Final = RecordKind(1, OffsetCommitKey, OffsetCommitValue, value_version=4)

"""The messages of offset_for_leader_epoch, API key 23. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, INT64, STRING, Message, Struct, array_of, wire


class OffsetForLeaderPartition(Struct):
    partition: int = wire(INT32)
    current_leader_epoch: int = wire(INT32, default=-1)
    leader_epoch: int = wire(INT32)


class OffsetForLeaderTopic(Struct):
    topic: str = wire(STRING)
    partitions: list[OffsetForLeaderPartition] = array_of(OffsetForLeaderPartition)


class OffsetForLeaderEpochRequest(Message, api_key=23, versions=(2, 4), flexible_since=4):
    replica_id: int = wire(INT32, since=3, default=-2)
    topics: list[OffsetForLeaderTopic] = array_of(OffsetForLeaderTopic)


class EpochEndOffset(Struct):
    error_code: int = wire(INT16)
    partition: int = wire(INT32)
    leader_epoch: int = wire(INT32, default=-1)
    end_offset: int = wire(INT64, default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: str = wire(STRING)
    partitions: list[EpochEndOffset] = array_of(EpochEndOffset)


class OffsetForLeaderEpochResponse(Message, api_key=23, versions=(2, 4), flexible_since=4):
    throttle_time_ms: int = wire(INT32)
    topics: list[OffsetForLeaderTopicResult] = array_of(OffsetForLeaderTopicResult)

"""The messages of txn_offset_commit, API key 28. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, INT64, STRING, Message, Struct, array_of, wire


class TxnOffsetCommitRequestPartition(Struct):
    partition_index: int = wire(INT32)
    committed_offset: int = wire(INT64)
    committed_leader_epoch: int = wire(INT32, since=2, default=-1)
    committed_metadata: str | None = wire(STRING, nullable_since=0, default=None)


class TxnOffsetCommitRequestTopic(Struct):
    name: str = wire(STRING)
    partitions: list[TxnOffsetCommitRequestPartition] = array_of(TxnOffsetCommitRequestPartition)


class TxnOffsetCommitRequest(Message, api_key=28, versions=(0, 5), flexible_since=3):
    transactional_id: str = wire(STRING)
    group_id: str = wire(STRING)
    producer_id: int = wire(INT64)
    producer_epoch: int = wire(INT16)
    generation_id: int = wire(INT32, since=3, default=-1)
    member_id: str = wire(STRING, since=3)
    group_instance_id: str | None = wire(STRING, since=3, nullable_since=3, default=None)
    topics: list[TxnOffsetCommitRequestTopic] = array_of(TxnOffsetCommitRequestTopic)


class TxnOffsetCommitResponsePartition(Struct):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)


class TxnOffsetCommitResponseTopic(Struct):
    name: str = wire(STRING)
    partitions: list[TxnOffsetCommitResponsePartition] = array_of(TxnOffsetCommitResponsePartition)


class TxnOffsetCommitResponse(Message, api_key=28, versions=(0, 5), flexible_since=3):
    throttle_time_ms: int = wire(INT32)
    topics: list[TxnOffsetCommitResponseTopic] = array_of(TxnOffsetCommitResponseTopic)

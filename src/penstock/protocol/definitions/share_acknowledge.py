"""The messages of share_acknowledge, API key 79. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT8, INT16, INT32, INT64, STRING, UUID, Message, Struct, array_of, wire


class AcknowledgementBatch(Struct):
    first_offset: int = wire(INT64)
    last_offset: int = wire(INT64)
    acknowledge_types: list[int] = array_of(INT8)


class AcknowledgePartition(Struct):
    partition_index: int = wire(INT32)
    acknowledgement_batches: list[AcknowledgementBatch] = array_of(AcknowledgementBatch)


class AcknowledgeTopic(Struct):
    topic_id: bytes = wire(UUID)
    partitions: list[AcknowledgePartition] = array_of(AcknowledgePartition)


class ShareAcknowledgeRequest(Message, api_key=79, versions=(1, 2), flexible_since=1):
    group_id: str | None = wire(STRING, nullable_since=1, default=None)
    member_id: str | None = wire(STRING, nullable_since=1, default=None)
    share_session_epoch: int = wire(INT32)
    is_renew_ack: bool = wire(BOOL, since=2)
    topics: list[AcknowledgeTopic] = array_of(AcknowledgeTopic)


class LeaderIdAndEpoch(Struct):
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)


class PartitionData(Struct):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=1, default=None)
    current_leader: LeaderIdAndEpoch = wire(LeaderIdAndEpoch)


class ShareAcknowledgeTopicResponse(Struct):
    topic_id: bytes = wire(UUID)
    partitions: list[PartitionData] = array_of(PartitionData)


class NodeEndpoint(Struct):
    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, nullable_since=1, default=None)


class ShareAcknowledgeResponse(Message, api_key=79, versions=(1, 2), flexible_since=1):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=1, default=None)
    acquisition_lock_timeout_ms: int = wire(INT32, since=2)
    responses: list[ShareAcknowledgeTopicResponse] = array_of(ShareAcknowledgeTopicResponse)
    node_endpoints: list[NodeEndpoint] = array_of(NodeEndpoint)

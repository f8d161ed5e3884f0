"""The messages of alter_partition, API key 56. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT8, INT16, INT32, INT64, UUID, Message, Struct, array_of, wire


class BrokerState(Struct):
    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64, default=-1)


class RequestPartitionData(Struct):
    partition_index: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    new_isr: list[int] = array_of(INT32, until=2)
    new_isr_with_epochs: list[BrokerState] = array_of(BrokerState, since=3)
    leader_recovery_state: int = wire(INT8)
    partition_epoch: int = wire(INT32)


class RequestTopicData(Struct):
    topic_id: bytes = wire(UUID)
    partitions: list[RequestPartitionData] = array_of(RequestPartitionData)


class AlterPartitionRequest(Message, api_key=56, versions=(2, 3), flexible_since=2):
    broker_id: int = wire(INT32)
    broker_epoch: int = wire(INT64, default=-1)
    topics: list[RequestTopicData] = array_of(RequestTopicData)


class ResponsePartitionData(Struct):
    partition_index: int = wire(INT32)
    error_code: int = wire(INT16)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32)
    isr: list[int] = array_of(INT32)
    leader_recovery_state: int = wire(INT8)
    partition_epoch: int = wire(INT32)


class ResponseTopicData(Struct):
    topic_id: bytes = wire(UUID)
    partitions: list[ResponsePartitionData] = array_of(ResponsePartitionData)


class AlterPartitionResponse(Message, api_key=56, versions=(2, 3), flexible_since=2):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    topics: list[ResponseTopicData] = array_of(ResponseTopicData)

"""The messages of metadata, API key 3. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT16, INT32, STRING, UUID, Message, Struct, array_of, wire


class MetadataRequestTopic(Struct):
    topic_id: bytes = wire(UUID, since=10)
    name: str | None = wire(STRING, nullable_since=10)


class MetadataRequest(Message, api_key=3, versions=(0, 13), flexible_since=9):
    topics: list[MetadataRequestTopic] | None = array_of(MetadataRequestTopic, nullable_since=1)
    allow_auto_topic_creation: bool = wire(BOOL, since=4, default=True)
    include_cluster_authorized_operations: bool = wire(BOOL, since=8, until=10)
    include_topic_authorized_operations: bool = wire(BOOL, since=8)


class MetadataResponseBroker(Struct):
    node_id: int = wire(INT32)
    host: str = wire(STRING)
    port: int = wire(INT32)
    rack: str | None = wire(STRING, since=1, nullable_since=1, default=None)


class MetadataResponsePartition(Struct):
    error_code: int = wire(INT16)
    partition_index: int = wire(INT32)
    leader_id: int = wire(INT32)
    leader_epoch: int = wire(INT32, since=7, default=-1)
    replica_nodes: list[int] = array_of(INT32)
    isr_nodes: list[int] = array_of(INT32)
    offline_replicas: list[int] = array_of(INT32, since=5)


class MetadataResponseTopic(Struct):
    error_code: int = wire(INT16)
    name: str | None = wire(STRING, nullable_since=12)
    topic_id: bytes = wire(UUID, since=10)
    is_internal: bool = wire(BOOL, since=1)
    partitions: list[MetadataResponsePartition] = array_of(MetadataResponsePartition)
    topic_authorized_operations: int = wire(INT32, since=8, default=-2147483648)


class MetadataResponse(Message, api_key=3, versions=(0, 13), flexible_since=9):
    throttle_time_ms: int = wire(INT32, since=3)
    brokers: list[MetadataResponseBroker] = array_of(MetadataResponseBroker)
    cluster_id: str | None = wire(STRING, since=2, nullable_since=2, default=None)
    controller_id: int = wire(INT32, since=1, default=-1)
    topics: list[MetadataResponseTopic] = array_of(MetadataResponseTopic)
    cluster_authorized_operations: int = wire(INT32, since=8, until=10, default=-2147483648)
    error_code: int = wire(INT16, since=13)

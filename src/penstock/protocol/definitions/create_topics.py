"""The messages of create_topics, API key 19. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BOOL, INT8, INT16, INT32, STRING, UUID, Message, Struct, array_of, wire


class CreatableReplicaAssignment(Struct):
    partition_index: int = wire(INT32)
    broker_ids: list[int] = array_of(INT32)


class CreatableTopicConfig(Struct):
    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable_since=2, default=None)


class CreatableTopic(Struct):
    name: str = wire(STRING)
    num_partitions: int = wire(INT32)
    replication_factor: int = wire(INT16)
    assignments: list[CreatableReplicaAssignment] = array_of(CreatableReplicaAssignment)
    configs: list[CreatableTopicConfig] = array_of(CreatableTopicConfig)


class CreateTopicsRequest(Message, api_key=19, versions=(2, 7), flexible_since=5):
    topics: list[CreatableTopic] = array_of(CreatableTopic)
    timeout_ms: int = wire(INT32, default=60000)
    validate_only: bool = wire(BOOL)


class CreatableTopicConfigs(Struct):
    name: str = wire(STRING)
    value: str | None = wire(STRING, nullable_since=5, default=None)
    read_only: bool = wire(BOOL)
    config_source: int = wire(INT8, default=-1)
    is_sensitive: bool = wire(BOOL)


class CreatableTopicResult(Struct):
    name: str = wire(STRING)
    topic_id: bytes = wire(UUID, since=7)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=2, default=None)
    topic_config_error_code: int = wire(INT16, since=5, tag=0)
    num_partitions: int = wire(INT32, since=5, default=-1)
    replication_factor: int = wire(INT16, since=5, default=-1)
    configs: list[CreatableTopicConfigs] | None = array_of(
        CreatableTopicConfigs, since=5, nullable_since=5, default=None
    )


class CreateTopicsResponse(Message, api_key=19, versions=(2, 7), flexible_since=5):
    throttle_time_ms: int = wire(INT32)
    topics: list[CreatableTopicResult] = array_of(CreatableTopicResult)

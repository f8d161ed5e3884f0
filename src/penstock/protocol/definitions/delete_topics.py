"""The messages of delete_topics, API key 20. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, STRING, UUID, Message, Struct, array_of, wire


class DeleteTopicState(Struct):
    name: str | None = wire(STRING, nullable_since=6, default=None)
    topic_id: bytes = wire(UUID)


class DeleteTopicsRequest(Message, api_key=20, versions=(1, 6), flexible_since=4):
    topic_names: list[str] = array_of(STRING, until=5)
    topics: list[DeleteTopicState] = array_of(DeleteTopicState, since=6)
    timeout_ms: int = wire(INT32)


class DeletableTopicResult(Struct):
    name: str | None = wire(STRING, nullable_since=6)
    topic_id: bytes = wire(UUID, since=6)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, since=5, nullable_since=5, default=None)


class DeleteTopicsResponse(Message, api_key=20, versions=(1, 6), flexible_since=4):
    throttle_time_ms: int = wire(INT32)
    responses: list[DeletableTopicResult] = array_of(DeletableTopicResult)

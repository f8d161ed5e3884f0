"""The messages of delete_share_group_offsets, API key 92. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import INT16, INT32, STRING, UUID, Message, Struct, array_of, wire


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: str = wire(STRING)


class DeleteShareGroupOffsetsRequest(Message, api_key=92, versions=(0, 0), flexible_since=0):
    group_id: str = wire(STRING)
    topics: list[DeleteShareGroupOffsetsRequestTopic] = array_of(DeleteShareGroupOffsetsRequestTopic)


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: str = wire(STRING)
    topic_id: bytes = wire(UUID)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)


class DeleteShareGroupOffsetsResponse(Message, api_key=92, versions=(0, 0), flexible_since=0):
    throttle_time_ms: int = wire(INT32)
    error_code: int = wire(INT16)
    error_message: str | None = wire(STRING, nullable_since=0, default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic] = array_of(DeleteShareGroupOffsetsResponseTopic)

"""The message consumer_protocol_subscription. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BYTES, INT32, STRING, Message, Struct, array_of, wire


class TopicPartition(Struct):
    topic: str = wire(STRING)
    partitions: list[int] = array_of(INT32)


class ConsumerProtocolSubscription(Message, versions=(0, 3)):
    topics: list[str] = array_of(STRING)
    user_data: bytes | None = wire(BYTES, nullable_since=0, default=None)
    owned_partitions: list[TopicPartition] = array_of(TopicPartition, since=1)
    generation_id: int = wire(INT32, since=2, default=-1)
    rack_id: str | None = wire(STRING, since=3, nullable_since=3, default=None)

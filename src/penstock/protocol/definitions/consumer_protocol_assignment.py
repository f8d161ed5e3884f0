"""The message consumer_protocol_assignment. Derived by tools/derive_definitions.py."""

from __future__ import annotations

from penstock.protocol.schema import BYTES, INT32, STRING, Message, Struct, array_of, wire


class TopicPartition(Struct):
    topic: str = wire(STRING)
    partitions: list[int] = array_of(INT32)


class ConsumerProtocolAssignment(Message, versions=(0, 3)):
    assigned_partitions: list[TopicPartition] = array_of(TopicPartition)
    user_data: bytes | None = wire(BYTES, nullable_since=0, default=None)

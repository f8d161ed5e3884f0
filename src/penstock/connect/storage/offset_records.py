"""The records of the offsets topic, as Kafka Connect 4.3 writes them: how far source connectors have got.

Owns keys and values of `offset.storage.topic`. It must not know topics or clients.

Two texts of one partition may differ in the order of their fields: Kafka Connect compares bytes, and writes the order
of a Java map. Readers compare `partition_key`, and writers repeat the bytes of a key that they have read, so that a
partition keeps one record.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.client.partitioners import murmur2
from penstock.connect.connector import SourceOffset, SourcePartition
from penstock.connect.storage.json_values import KeyValue, decode_json, decode_object, encode_json


@dataclass(frozen=True, slots=True)
class OffsetRecord:
    """No offset is a tombstone. Kafka Connect accepts null as a partition too."""

    connector: str
    partition: SourcePartition | None
    offset: SourceOffset | None


def partition_key(partition: SourcePartition | None) -> str:
    """Equal for equal partitions, whatever the order of their fields."""
    return json.dumps(partition, sort_keys=True, separators=(",", ":"))


def encode_key(connector: str, partition: SourcePartition | None) -> bytes:
    return encode_json([connector, None if partition is None else dict(partition)])


def encode(record: OffsetRecord) -> KeyValue:
    value = None if record.offset is None else encode_json(dict(record.offset))
    return encode_key(record.connector, record.partition), value


def decode(key: bytes | None, value: bytes | None) -> OffsetRecord | None:
    match decode_json(key):
        case [str(connector), dict() | None as partition]:
            offset: Mapping[str, Any] | None = decode_object(value)
            return None if value is not None and offset is None else OffsetRecord(connector, partition, offset)
    return None


def partition_of_key(key: bytes, partition_count: int) -> int:
    """Where Java's producer writes a record with this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count

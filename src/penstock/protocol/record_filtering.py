"""Removes records from a batch, as compaction does. What stays keeps its offset, its timestamp and its bytes.

Owns: which bytes of a payload are a record, its key and whether it has a value; the header of a batch that lost
records, all of its records, or got a delete horizon (KIP-534).
Must never know: which records stay.

Invariant: base offset, last offset, producer, epoch and sequence of a batch never change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from penstock.core.errors import ProtocolError
from penstock.protocol.compression import Compression, compress
from penstock.protocol.record_batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON_FLAG,
    HEADER_BYTES,
    LOG_OVERHEAD,
    BatchHeader,
    seal,
)

# The shortest record is its length, then one byte each for attributes, deltas, key, value and header count.
SMALLEST_RECORD_BYTES: Final = 7


class StoredRecord(NamedTuple):
    """The bytes [start, end) of a record in a decompressed payload, with its length."""

    start: int
    end: int
    body: int  # after the length
    timestamp_delta: int
    after_timestamp: int


class KeyedRecord(NamedTuple):
    """A record with what compaction must know of it."""

    stored: StoredRecord
    offset_delta: int
    key: bytes | None
    has_value: bool


@dataclass(frozen=True, slots=True)
class KeptRecords:
    """The records of a batch that stay."""

    count: int
    has_tombstones: bool
    records: Callable[[], Sequence[StoredRecord]]
    """Called only if the batch changes."""


def keyed_records(payload: bytes | memoryview, count: int) -> Iterator[KeyedRecord]:
    """The records of a payload; invalid lengths raise ProtocolError."""
    view = bytes(payload)
    size = len(view)
    start = 0
    for index in range(count):
        length, body = _varint(view, start, size)
        end = body + length
        if length < 1 or end > size:
            raise ProtocolError(f"record {index} of {count} is longer than its batch")
        timestamp_delta, after_timestamp = _varint(view, body + 1, end)
        offset_delta, at = _varint(view, after_timestamp, end)
        key_length, at = _varint(view, at, end)
        key = None
        if key_length >= 0:
            key = view[at : at + key_length]
            at += key_length
            if at > end:
                raise ProtocolError(f"the key of record {index} is longer than its record")
        value_length, _ = _varint(view, at, end)
        stored = StoredRecord(start, end, body, timestamp_delta, after_timestamp)
        yield KeyedRecord(stored, offset_delta, key, has_value=value_length >= 0)
        start = end
    if start != size:
        raise ProtocolError(f"{size - start} bytes are left after the last record of a batch")


def with_records(
    header: BatchHeader, payload: bytes | memoryview, kept: Sequence[StoredRecord], delete_horizon_ms: int | None
) -> memoryview:
    """The batch with only these records. A delete horizon, if given, is set; one that the batch has, stays."""
    base_timestamp = header.base_timestamp
    attributes = header.attributes
    if delete_horizon_ms is not None:
        base_timestamp = delete_horizon_ms
        attributes |= DELETE_HORIZON_FLAG
    if base_timestamp == header.base_timestamp:
        plain = b"".join(payload[record.start : record.end] for record in kept)
    else:
        plain = b"".join(_shifted(payload, record, header.base_timestamp - base_timestamp) for record in kept)
    max_timestamp = header.max_timestamp
    if not header.uses_log_append_time:
        max_timestamp = max(_int64(header.base_timestamp + record.timestamp_delta) for record in kept)
    stored = compress(Compression(header.compression), plain)
    changed = header._replace(
        batch_length=HEADER_BYTES - LOG_OVERHEAD + len(stored),
        attributes=attributes,
        base_timestamp=base_timestamp,
        max_timestamp=max_timestamp,
        records_count=len(kept),
    )
    batch = memoryview(bytearray(HEADER_BYTES) + stored)
    seal(batch, changed)
    return batch


def without_records(header: BatchHeader) -> memoryview:
    """The header alone: it still has the producer's last sequence, and the offsets."""
    emptied = header._replace(
        batch_length=HEADER_BYTES - LOG_OVERHEAD,
        attributes=header.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_FLAG),
        base_timestamp=header.max_timestamp,
        records_count=0,
    )
    batch = memoryview(bytearray(HEADER_BYTES))
    seal(batch, emptied)
    return batch


def _shifted(payload: bytes | memoryview, record: StoredRecord, shift: int) -> bytes:
    """The record under another base timestamp."""
    body = (
        bytes(payload[record.body : record.body + 1])
        + _encoded_varint(_int64(record.timestamp_delta + shift))
        + bytes(payload[record.after_timestamp : record.end])
    )
    return _encoded_varint(len(body)) + body


def _int64(value: int) -> int:
    """As a sum of 64-bit integers wraps around: a producer may send any timestamp."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _varint(buffer: bytes, position: int, end: int) -> tuple[int, int]:
    """A zigzag varint that ends before `end`."""
    if position < end:
        value = buffer[position]
        if value < 0x80:
            return (value >> 1) ^ -(value & 1), position + 1
    value = shift = 0
    while position < end and shift <= 63:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    raise ProtocolError("a varint extends beyond the end of its record")


def _encoded_varint(value: int) -> bytes:
    rest = (value << 1) ^ (value >> 63)
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)

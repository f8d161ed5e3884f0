"""Decodes the records of a record batch, whole or only their positions.

The produce and fetch paths do not use it, with few exceptions: compacted topics (every record needs a key), invalid
timestamps (which records?), ListOffsets by timestamp (which record of the batch?), a topic whose `compression.type`
differs from the producer's, and the coordinators when they load their topics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from penstock.core.errors import ProtocolError
from penstock.protocol.compression import Compression, compress, decompress
from penstock.protocol.record_batch import COMPRESSION_MASK, HEADER_BYTES, LOG_OVERHEAD, BatchHeader, seal

_VARINT_SHIFT_MAX: Final = 63

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]


class RecordPosition(NamedTuple):
    """A record's index in the batch, its offset delta and timestamp, and whether it has a key."""

    batch_index: int
    offset_delta: int
    timestamp: int
    has_key: bool


class Record(NamedTuple):
    """A whole record; its bytes are copies."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers


def record_positions(batch: memoryview, header: BatchHeader, bytes_max: int) -> Iterator[RecordPosition]:
    """Iterates over the records of a complete batch; invalid lengths raise ProtocolError."""
    payload = memoryview(decompress(header.compression, batch[HEADER_BYTES:], bytes_max))
    for index, (start, end) in enumerate(_extents(payload, header.records_count)):
        timestamp, offset_delta, at = _opening(payload, start, end, header)
        key_length, at = _varint(payload, at, end)
        if at + max(key_length, 0) > end:
            raise ProtocolError(f"the key of record {index} is longer than its record")
        yield RecordPosition(index, offset_delta, timestamp, key_length >= 0)


def read_records(batch: memoryview, header: BatchHeader, bytes_max: int) -> Iterator[Record]:
    """The records of a complete batch with key, value and headers; invalid bytes raise ProtocolError."""
    payload = memoryview(decompress(header.compression, batch[HEADER_BYTES:], bytes_max))
    for start, end in _extents(payload, header.records_count):
        timestamp, offset_delta, at = _opening(payload, start, end, header)
        key, at = _nullable_bytes(payload, at, end)
        value, at = _nullable_bytes(payload, at, end)
        headers, at = _headers(payload, at, end)
        if at != end:
            raise ProtocolError(f"{end - at} bytes are left after the headers of a record")
        yield Record(header.base_offset + offset_delta, timestamp, key, value, headers)


def recompressed(
    batch: memoryview, header: BatchHeader, codec: Compression, level: int | None, bytes_max: int
) -> tuple[memoryview, BatchHeader]:
    """The batch with another codec; CRC and length are recomputed, offsets are kept."""
    plain = decompress(header.compression, batch[HEADER_BYTES:], bytes_max)
    payload = compress(codec, plain, level)
    attributes = header.attributes & ~COMPRESSION_MASK | codec
    header = header._replace(attributes=attributes, batch_length=HEADER_BYTES - LOG_OVERHEAD + len(payload))
    out = memoryview(bytearray(HEADER_BYTES + len(payload)))
    out[HEADER_BYTES:] = payload
    return out, seal(out, header)


def _extents(payload: memoryview, count: int) -> Iterator[tuple[int, int]]:
    """Start, after its length, and end of each record."""
    position = 0
    end = len(payload)
    for index in range(count):
        length, position = _varint(payload, position, end)
        record_end = position + length
        if length < 0 or record_end > end:
            raise ProtocolError(f"record {index} of {count} is longer than its batch")
        yield position, record_end
        position = record_end
    if position != end:
        raise ProtocolError(f"{end - position} bytes are left after the last record of a batch")


def _opening(payload: memoryview, position: int, end: int, header: BatchHeader) -> tuple[int, int, int]:
    """A record's timestamp and offset delta, and the position after them."""
    timestamp_delta, position = _varint(payload, position + 1, end)  # one byte of unused attributes
    offset_delta, position = _varint(payload, position, end)
    timestamp = header.max_timestamp if header.uses_log_append_time else header.base_timestamp + timestamp_delta
    return timestamp, offset_delta, position


def _headers(payload: memoryview, position: int, end: int) -> tuple[Headers, int]:
    count, position = _varint(payload, position, end)
    if not 0 <= count <= end - position:
        raise ProtocolError(f"a record declares {count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, position = _nullable_bytes(payload, position, end)
        value, position = _nullable_bytes(payload, position, end)
        if name is None:
            raise ProtocolError("a header has no name")
        try:
            headers.append((name.decode(), value))
        except UnicodeDecodeError as error:
            raise ProtocolError("the name of a header is not UTF-8") from error
    return headers, position


def _nullable_bytes(payload: memoryview, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = _varint(payload, position, end)
    if length < 0:
        return None, position
    if position + length > end:
        raise ProtocolError("a key, value or header is longer than its record")
    return bytes(payload[position : position + length]), position + length


def _varint(buffer: memoryview, position: int, end: int) -> tuple[int, int]:
    """A zigzag varint that ends before `end`."""
    value = shift = 0
    while position < end and shift <= _VARINT_SHIFT_MAX:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), position
        shift += 7
    raise ProtocolError("a varint extends beyond the end of its record")

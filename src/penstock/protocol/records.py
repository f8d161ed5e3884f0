"""Inside a record batch: the few questions the broker has to ask of single records.

The produce and fetch paths never come here. Who does: a compacted topic (every record needs a key), a timestamp out of
bounds (which records?), ListOffsets by timestamp (which record of the batch?), and a topic whose `compression.type`
differs from the producer's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from crc32c import crc32c

from penstock.core.errors import ProtocolError
from penstock.protocol.compression import Compression, compress, decompress
from penstock.protocol.record_batch import COMPRESSION_MASK, CRC_START, HEADER, HEADER_BYTES, LOG_OVERHEAD, BatchHeader

_VARINT_SHIFT_MAX: Final = 63


class RecordPosition(NamedTuple):
    """One record, as far as the broker cares: its place in the batch, its time, and whether it has a key."""

    batch_index: int
    offset_delta: int
    timestamp: int
    has_key: bool


def record_positions(batch: memoryview, header: BatchHeader, bytes_max: int) -> Iterator[RecordPosition]:
    """Walks the records of one whole batch; lengths that do not fit raise ProtocolError."""
    payload = memoryview(decompress(header.compression, batch[HEADER_BYTES:], bytes_max))
    position = 0
    end = len(payload)
    for index in range(header.records_count):
        length, position = _varint(payload, position, end)
        record_end = position + length
        if length < 0 or record_end > end:
            raise ProtocolError(f"record {index} of {header.records_count} is longer than its batch")
        timestamp_delta, at = _varint(payload, position + 1, record_end)  # one byte of unused attributes
        offset_delta, at = _varint(payload, at, record_end)
        key_length, at = _varint(payload, at, record_end)
        if at + max(key_length, 0) > record_end:
            raise ProtocolError(f"the key of record {index} is longer than its record")
        timestamp = header.max_timestamp if header.uses_log_append_time else header.base_timestamp + timestamp_delta
        yield RecordPosition(index, offset_delta, timestamp, key_length >= 0)
        position = record_end
    if position != end:
        raise ProtocolError(f"{end - position} bytes are left behind the last record of a batch")


def recompressed(
    batch: memoryview, header: BatchHeader, codec: Compression, level: int | None, bytes_max: int
) -> tuple[memoryview, BatchHeader]:
    """The same batch under another codec; its CRC and length are computed anew, its offsets stay."""
    plain = decompress(header.compression, batch[HEADER_BYTES:], bytes_max)
    payload = compress(codec, plain, level)
    attributes = header.attributes & ~COMPRESSION_MASK | codec
    header = header._replace(attributes=attributes, batch_length=HEADER_BYTES - LOG_OVERHEAD + len(payload))
    out = bytearray(HEADER_BYTES + len(payload))
    out[HEADER_BYTES:] = payload
    HEADER.pack_into(out, 0, *header)
    header = header._replace(crc=crc32c(memoryview(out)[CRC_START:]))
    HEADER.pack_into(out, 0, *header)
    return memoryview(out), header


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
    raise ProtocolError("a variable-length number runs past the end of its record")

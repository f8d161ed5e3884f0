"""The header of a record batch v2 (61 bytes); the records after it are opaque here.

The broker validates a batch, patches its base offset and leader epoch in place (both are outside the CRC), and keeps
the rest as opaque bytes. `records.py` decodes records, for compacted topics and recompression; the usual produce path
does not.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from penstock.core.ids import ProducerIdentity

HEADER: Final = Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = HEADER.size  # 61
LOG_OVERHEAD: Final = 12  # base offset and batch length, which batch_length does not include
CRC_START: Final = 21  # the CRC covers everything from the attributes on
MAGIC_V2: Final = 2
MAGIC_AT: Final = 16

NO_SEQUENCE: Final = -1
SEQUENCE_MASK: Final = 0x7FFFFFFF  # sequences wrap from 2^31-1 to 0
NO_TIMESTAMP: Final = -1

COMPRESSION_MASK: Final = 0x07
TIMESTAMP_TYPE_FLAG: Final = 0x08
TRANSACTIONAL_FLAG: Final = 0x10
CONTROL_FLAG: Final = 0x20
DELETE_HORIZON_FLAG: Final = 0x40

_BASE_OFFSET: Final = Struct(">q")
_LEADER_EPOCH: Final = Struct(">i")
_CRC: Final = Struct(">I")
_ATTRIBUTES: Final = Struct(">h")
_MAX_TIMESTAMP: Final = Struct(">q")
_PRODUCER: Final = Struct(">qhi")  # id, epoch, base sequence
_LEADER_EPOCH_AT: Final = 12
_CRC_AT: Final = 17
_MAX_TIMESTAMP_AT: Final = 35
_PRODUCER_AT: Final = 43


class BatchHeader(NamedTuple):
    """The header's fields in wire order, so that parsing is one struct call."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int

    @property
    def size(self) -> int:
        """The size of the batch in bytes, including the header."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def end_offset(self) -> int:
        """The offset after the last record (exclusive)."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def uses_log_append_time(self) -> bool:
        return bool(self.attributes & TIMESTAMP_TYPE_FLAG)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When a compacted log may drop the tombstones or the marker of this batch (KIP-534); None if it is not set.

        The base timestamp is the horizon, and the records' timestamps are relative to it as ever.
        """
        return self.base_timestamp if self.attributes & DELETE_HORIZON_FLAG else None

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & SEQUENCE_MASK


def parse_header(buffer: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """Parses the header at `position`; the caller ensures that HEADER_BYTES are available."""
    return BatchHeader._make(HEADER.unpack_from(buffer, position))


def crc_holds(batch: memoryview, header: BatchHeader) -> bool:
    """Whether the CRC matches; `batch` is exactly the bytes of the batch."""
    return bool(crc32c(batch[CRC_START:]) == header.crc)


def seal(batch: memoryview, header: BatchHeader) -> BatchHeader:
    """Writes the header of a batch whose records are in place, and the CRC; returns the header with the CRC."""
    HEADER.pack_into(batch, 0, *header)
    crc = crc32c(batch[CRC_START:])
    _CRC.pack_into(batch, _CRC_AT, crc)
    return header._replace(crc=crc)


def assign(batch: memoryview, base_offset: int, leader_epoch: int) -> None:
    """Sets base offset and leader epoch in place. Both fields are outside the CRC."""
    _BASE_OFFSET.pack_into(batch, 0, base_offset)
    _LEADER_EPOCH.pack_into(batch, _LEADER_EPOCH_AT, leader_epoch)


def stamp_log_append_time(batch: memoryview, header: BatchHeader, now_ms: int) -> BatchHeader:
    """Sets the timestamp of all records to the log append time; the CRC is recomputed."""
    attributes = header.attributes | TIMESTAMP_TYPE_FLAG
    _ATTRIBUTES.pack_into(batch, CRC_START, attributes)
    _MAX_TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, now_ms)
    crc = crc32c(batch[CRC_START:])
    _CRC.pack_into(batch, _CRC_AT, crc)
    return header._replace(attributes=attributes, max_timestamp=now_ms, crc=crc)


def with_producer(
    batch: bytes | bytearray | memoryview, producer: ProducerIdentity, base_sequence: int, *, transactional: bool
) -> bytearray:
    """A copy of the batch that carries a producer's id, epoch and sequence; the CRC is recomputed."""
    stamped = bytearray(batch)
    attributes = parse_header(stamped).attributes | TRANSACTIONAL_FLAG * transactional
    _ATTRIBUTES.pack_into(stamped, CRC_START, attributes)
    _PRODUCER.pack_into(stamped, _PRODUCER_AT, producer.producer_id, producer.epoch, base_sequence)
    with memoryview(stamped) as view:
        _CRC.pack_into(stamped, _CRC_AT, crc32c(view[CRC_START:]))
    return stamped

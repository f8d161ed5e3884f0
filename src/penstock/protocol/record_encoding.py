"""Encodes records into a record batch v2, for the records that the broker itself writes: coordinator topics, markers.

Simple rather than fast, with a Python object per record: batches of clients stay bytes and never come here.
`records.py` is the decoder.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from penstock.core.ids import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from penstock.protocol.compression import Compression, compress
from penstock.protocol.record_batch import (
    CONTROL_FLAG,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    seal,
)
from penstock.protocol.records import Headers


class NewRecord(NamedTuple):
    """A record without an offset."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Headers = ()


class BatchProducer(NamedTuple):
    """The producer of a batch; the sequence matters only where retries must be recognised."""

    producer_id: int
    producer_epoch: int
    base_sequence: int = NO_SEQUENCE


NO_PRODUCER: Final = BatchProducer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


def encode_batch(
    records: Sequence[NewRecord],
    *,
    producer: BatchProducer = NO_PRODUCER,
    transactional: bool = False,
    control: bool = False,
    compression: Compression = Compression.NONE,
) -> tuple[memoryview, BatchHeader]:
    """A complete batch with offsets from 0 and its CRC, and its header. Requires at least one record."""
    assert records, "a batch needs at least one record"
    base_timestamp = records[0].timestamp
    plain = bytearray()
    for offset_delta, record in enumerate(records):
        _append_record(plain, record, base_timestamp, offset_delta)
    payload = compress(compression, memoryview(plain))
    header = BatchHeader(
        base_offset=0,
        batch_length=HEADER_BYTES - LOG_OVERHEAD + len(payload),
        partition_leader_epoch=NO_LEADER_EPOCH,
        magic=MAGIC_V2,
        crc=0,
        attributes=compression | TRANSACTIONAL_FLAG * transactional | CONTROL_FLAG * control,
        last_offset_delta=len(records) - 1,
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp for record in records),
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=producer.base_sequence,
        records_count=len(records),
    )
    batch = memoryview(bytearray(HEADER_BYTES) + payload)
    return batch, seal(batch, header)


def _append_record(out: bytearray, record: NewRecord, base_timestamp: int, offset_delta: int) -> None:
    body = bytearray(1)  # attributes, which are unused
    _append_varint(body, record.timestamp - base_timestamp)
    _append_varint(body, offset_delta)
    _append_bytes(body, record.key)
    _append_bytes(body, record.value)
    _append_varint(body, len(record.headers))
    for name, value in record.headers:
        _append_bytes(body, name.encode())
        _append_bytes(body, value)
    _append_varint(out, len(body))
    out += body


def _append_bytes(out: bytearray, content: bytes | None) -> None:
    if content is None:
        _append_varint(out, -1)
    else:
        _append_varint(out, len(content))
        out += content


def _append_varint(out: bytearray, value: int) -> None:
    """Zigzag encoding: small positive and negative numbers are short."""
    encoded = (value << 1) ^ (value >> 63)
    while encoded >= 0x80:
        out.append(encoded & 0x7F | 0x80)
        encoded >>= 7
    out.append(encoded)

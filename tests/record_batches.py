"""Record batches for tests, encoded record by record: slow, but simple enough to be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from crc32c import crc32c

from penstock.protocol.compression import Compression, compress
from penstock.protocol.record_batch import CRC_START, HEADER, LOG_OVERHEAD, TIMESTAMP_TYPE_FLAG


@dataclass(frozen=True, slots=True)
class Record:
    value: bytes | None = b"value"
    key: bytes | None = None
    timestamp: int = 1_700_000_000_000
    headers: Sequence[tuple[str, bytes | None]] = field(default_factory=tuple)


def varint(value: int) -> bytes:
    encoded = (value << 1) ^ (value >> 63)
    out = bytearray()
    while encoded >= 0x80:
        out.append(encoded & 0x7F | 0x80)
        encoded >>= 7
    out.append(encoded)
    return bytes(out)


def _nullable(content: bytes | None) -> bytes:
    return varint(-1) if content is None else varint(len(content)) + content


def encode_records(records: Sequence[Record], base_timestamp: int) -> bytes:
    out = bytearray()
    for index, record in enumerate(records):
        body = b"\0" + varint(record.timestamp - base_timestamp) + varint(index)
        body += _nullable(record.key) + _nullable(record.value) + varint(len(record.headers))
        for name, content in record.headers:
            body += varint(len(name.encode())) + name.encode() + _nullable(content)
        out += varint(len(body)) + body
    return bytes(out)


def encode_batch(
    records: Sequence[Record],
    *,
    compression: Compression = Compression.NONE,
    producer: tuple[int, int, int] = (-1, -1, -1),
    attributes: int = 0,
    log_append_time: bool = False,
    **changed_header_fields: int,
) -> bytearray:
    """One batch as a producer sends it. Header fields can be set wrong by name; the CRC holds unless `crc` is given."""
    base_timestamp = records[0].timestamp
    payload = compress(compression, encode_records(records, base_timestamp))
    fields = {
        "base_offset": 0,
        "batch_length": HEADER.size - LOG_OVERHEAD + len(payload),
        "partition_leader_epoch": -1,
        "magic": 2,
        "crc": 0,
        "attributes": compression | attributes | (TIMESTAMP_TYPE_FLAG if log_append_time else 0),
        "last_offset_delta": len(records) - 1,
        "base_timestamp": base_timestamp,
        "max_timestamp": max(record.timestamp for record in records),
        "producer_id": producer[0],
        "producer_epoch": producer[1],
        "base_sequence": producer[2],
        "records_count": len(records),
    } | changed_header_fields
    batch = bytearray(HEADER.size) + payload
    HEADER.pack_into(batch, 0, *fields.values())
    if "crc" not in changed_header_fields:
        fields["crc"] = crc32c(bytes(batch[CRC_START:]))
        HEADER.pack_into(batch, 0, *fields.values())
    return batch

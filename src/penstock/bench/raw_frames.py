"""Encodes three requests and decodes their responses, without the codec; also encodes a record batch.

Produce v3, Fetch v4 and Metadata v4 are the oldest versions with record batches v2 that Apache Kafka 4 accepts: fixed
layouts without tagged fields. The same batch can be sent repeatedly: its base offset lies outside its CRC. The module
must not use Penstock's own codec, so that an error in it shows here.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from crc32c import crc32c

from penstock.bench.measurement import MeasurementError

_PRODUCE, _PRODUCE_VERSION = 0, 3
_FETCH, _FETCH_VERSION = 1, 4
_METADATA, _METADATA_VERSION = 3, 4
_ACKS_LEADER: Final = 1
_BATCH_HEADER: Final = struct.Struct(">qiibIhiqqqhii")


class ProduceAnswer(NamedTuple):
    error: int
    base_offset: int


def record_batch(record_count: int, value: bytes, timestamp_ms: int) -> bytes:
    """A batch v2 of equal records, uncompressed, without keys or headers."""
    records = b"".join(_record(delta, value) for delta in range(record_count))
    attributes, no_producer_id, no_producer_epoch, no_sequence = 0, -1, -1, -1
    after_crc = struct.pack(
        ">hiqqqhii",
        attributes,
        record_count - 1,
        timestamp_ms,
        timestamp_ms,
        no_producer_id,
        no_producer_epoch,
        no_sequence,
        record_count,
    )
    base_offset, leader_epoch, magic = 0, -1, 2
    length = _BATCH_HEADER.size - 12 + len(records)
    crc = crc32c(after_crc + records)
    return struct.pack(">qiibI", base_offset, length, leader_epoch, magic, crc) + after_crc + records


def _record(offset_delta: int, value: bytes) -> bytes:
    attributes_and_timestamp_delta = b"\x00\x00"
    no_key, no_headers = _varint(-1), _varint(0)
    body = attributes_and_timestamp_delta + _varint(offset_delta) + no_key + _varint(len(value)) + value + no_headers
    return _varint(len(body)) + body


def _varint(value: int) -> bytes:
    """Zigzag, seven bits per byte, least significant first."""
    rest = value << 1 if value >= 0 else (-value << 1) - 1
    out = bytearray()
    while rest > 0x7F:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def metadata_request(topic: str, correlation_id: int) -> bytes:
    """Requests one topic, which the broker may create."""
    return _frame(_METADATA, _METADATA_VERSION, correlation_id, struct.pack(">i", 1) + _string(topic) + b"\x01")


def produce_request(topic: str, partition: int, batch: bytes, correlation_id: int) -> bytes:
    no_transactional_id, timeout_ms = -1, 30_000
    body = struct.pack(">hhii", no_transactional_id, _ACKS_LEADER, timeout_ms, 1) + _string(topic)
    body += struct.pack(">iii", 1, partition, len(batch)) + batch
    return _frame(_PRODUCE, _PRODUCE_VERSION, correlation_id, body)


def fetch_request(topic: str, partition: int, offset: int, correlation_id: int) -> bytes:
    """Requests one byte: the broker returns at least one whole batch, so exactly one."""
    replica_id, max_wait_ms, min_bytes, max_bytes, read_uncommitted = -1, 500, 1, 1 << 20, 0
    body = struct.pack(">iiiibi", replica_id, max_wait_ms, min_bytes, max_bytes, read_uncommitted, 1) + _string(topic)
    partition_max_bytes = 1
    body += struct.pack(">iiqi", 1, partition, offset, partition_max_bytes)
    return _frame(_FETCH, _FETCH_VERSION, correlation_id, body)


def read_produce_answer(answer: bytes) -> ProduceAnswer:
    reader = _Reader(answer)
    reader.take(">ii")  # correlation id, one topic
    reader.string()
    _partitions, _index, error, base_offset = reader.take(">iihq")
    return ProduceAnswer(error, base_offset)


def check_fetch_answer(answer: bytes, offset: int) -> None:
    """Raises unless the response begins with the batch that contains `offset`."""
    reader = _Reader(answer)
    reader.take(">iii")  # correlation id, throttle time, one topic
    reader.string()
    fields = reader.take(">iihqqii")  # partitions, index, error, high watermark, last stable offset, aborted, bytes
    error, aborted_count, record_bytes = fields[2], fields[5], fields[6]
    if error or aborted_count > 0 or record_bytes < _BATCH_HEADER.size:
        raise MeasurementError(f"a fetch at offset {offset} returned error {error} and {record_bytes} bytes")
    batch = reader.take(_BATCH_HEADER.format)
    base_offset, last_offset = batch[0], batch[0] + batch[6]
    if not base_offset <= offset <= last_offset:
        raise MeasurementError(f"a fetch at offset {offset} returned offsets {base_offset} to {last_offset}")


def led_partitions(answer: bytes) -> int:
    """The number of partitions with a leader, of the requested topic."""
    reader = _Reader(answer)
    _correlation_id, _throttle_time_ms, broker_count = reader.take(">iii")
    for _ in range(broker_count):
        reader.take(">i")
        reader.string()
        reader.take(">i")
        reader.string()  # rack
    reader.string()  # cluster id
    reader.take(">ii")  # controller id, one topic
    reader.take(">h")
    reader.string()
    _is_internal, partition_count = reader.take(">?i")
    led = 0
    for _ in range(partition_count):
        _error, _index, leader = reader.take(">hii")
        led += leader >= 0
        for _replicas_then_in_sync in range(2):
            (count,) = reader.take(">i")
            reader.take(f">{count}i")
    return led


class _Reader:
    """Reads a response. The peer is a broker under test and may send anything; struct rejects truncated data."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, layout: str) -> tuple[int, ...]:
        try:
            values = struct.unpack_from(layout, self._data, self._at)
        except struct.error as unexpected:
            raise MeasurementError(
                f"a response of {len(self._data)} bytes does not have the expected layout"
            ) from unexpected
        self._at += struct.calcsize(layout)
        return values

    def string(self) -> None:
        """Skips a string, which may be null."""
        (length,) = self.take(">h")
        self._at += max(0, length)


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded


def _frame(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    no_client_id = -1
    header = struct.pack(">hhih", api_key, version, correlation_id, no_client_id)
    return struct.pack(">i", len(header) + len(body)) + header + body

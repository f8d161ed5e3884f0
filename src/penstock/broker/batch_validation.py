"""What a producer's bytes must be before they may enter a log.

Checked on every batch, by its header alone: there is exactly one, whole, of magic 2, its CRC holds, its count agrees
with its offsets, and it fits the limits of the topic. Records are opened only where it asks what the header
cannot answer: keys of a compacted topic, a timestamp out of bounds, another compression.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from penstock.core import limits
from penstock.core.errors import ProtocolError
from penstock.core.ids import NO_PRODUCER_ID
from penstock.metadata.topic_config import TopicConfig
from penstock.protocol.compression import BY_CONFIG_NAME, Compression
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.record_batch import (
    CONTROL_FLAG,
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    crc_holds,
    parse_header,
    stamp_log_append_time,
)
from penstock.protocol.records import recompressed, record_positions

# The first Produce version whose clients may be expected to read zstd (KIP-110).
ZSTD_FIRST_PRODUCE_VERSION: Final = 7
# Below this a length cannot be a batch's of any magic: the oldest format's record overhead.
_SMALLEST_BATCH_LENGTH: Final = 14
_BYTES_UP_TO_MAGIC: Final = 17
# Control batches, and codecs from zstd on: refused, or not for every version.
_UNUSUAL_ATTRIBUTES: Final = TRANSACTIONAL_FLAG | CONTROL_FLAG | Compression.ZSTD
_NO_BOUND: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class RecordError:
    """Which record of the batch is wrong, and why (KIP-467)."""

    batch_index: int
    message: str


class InvalidRecords(BrokerError):
    """The batch as a whole is refused because of some of its records."""

    def __init__(self, code: ErrorCode, message: str, record_errors: list[RecordError]) -> None:
        super().__init__(code, message)
        self.record_errors = record_errors


@dataclass(frozen=True, slots=True)
class BatchRules:
    """A topic's configuration, as far as a batch has to obey it; made once, asked on every produce."""

    max_message_bytes: int
    requires_keys: bool
    log_append_time: bool
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    compression: Compression | None  # None: as the producer chose
    compression_level: int | None

    @classmethod
    def of(cls, config: TopicConfig) -> BatchRules:
        codec = BY_CONFIG_NAME.get(config.compression_type)
        levels = {
            Compression.GZIP: config.compression_gzip_level,
            Compression.LZ4: config.compression_lz4_level,
            Compression.ZSTD: config.compression_zstd_level,
        }
        return cls(
            max_message_bytes=config.max_message_bytes,
            requires_keys=config.compacts,
            log_append_time=config.log_append_time,
            timestamp_before_max_ms=config.message_timestamp_before_max_ms,
            timestamp_after_max_ms=config.message_timestamp_after_max_ms,
            compression=codec,
            compression_level=None if codec is None else levels.get(codec),
        )

    def must_open(self, header: BatchHeader, now_ms: int) -> bool:
        """Whether the header leaves a question that only the records answer."""
        if self.requires_keys:
            return True
        if self.log_append_time:
            return False
        return self.timestamp_before_max_ms != _NO_BOUND or header.max_timestamp > now_ms + self.timestamp_after_max_ms


def validated_batch(
    records: memoryview | None, rules: BatchRules, api_version: int, now_ms: int, in_transaction: bool = False
) -> tuple[memoryview, BatchHeader]:
    """The one batch in `records`, as the log will keep it. BrokerError with Kafka's code: it must not enter the log.

    `in_transaction` says that the request named a transactional id, and that the coordinator was asked about it.
    """
    header = _only_batch(records)
    assert records is not None
    if header.size > rules.max_message_bytes:
        raise BrokerError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"The batch has {header.size} bytes; the topic's max.message.bytes is {rules.max_message_bytes}.",
        )
    if not crc_holds(records, header):
        raise _corrupt("The batch's CRC does not match its content.")
    if not _is_plain(header):
        _check_header(header, api_version, in_transaction)
    if rules.must_open(header, now_ms):
        _check_records(records, header, rules, now_ms)
    batch = records
    if rules.compression is not None and header.compression != rules.compression:
        batch, header = _recompressed(batch, header, rules.compression, rules.compression_level)
    if rules.log_append_time:
        header = stamp_log_append_time(batch, header, now_ms)
    return batch, header


def _only_batch(records: memoryview | None) -> BatchHeader:
    if records is not None and len(records) >= HEADER_BYTES:
        header = parse_header(records)
        if header.magic == MAGIC_V2 and header.batch_length == len(records) - LOG_OVERHEAD:
            return header
    raise _not_one_batch(records)


def _not_one_batch(records: memoryview | None) -> BrokerError:
    """Says what is wrong with bytes that are not exactly one batch, with the code that Kafka gives."""
    if records is None or len(records) < _BYTES_UP_TO_MAGIC:
        return _invalid("A produce request must carry one whole record batch for each partition.")
    batch_length = int.from_bytes(records[8:12], "big", signed=True)
    magic = records[16]
    if batch_length < _SMALLEST_BATCH_LENGTH or magic > MAGIC_V2:
        return _corrupt(f"No record batch has length {batch_length} and magic {magic}.")
    if len(records) < batch_length + LOG_OVERHEAD:
        return _invalid(f"The batch announces {batch_length + LOG_OVERHEAD} bytes; {len(records)} were sent.")
    if magic != MAGIC_V2:
        return _invalid(f"Record batches must have magic 2, not {magic}.")
    if batch_length + LOG_OVERHEAD < HEADER_BYTES:
        return _corrupt(f"A batch of {batch_length} bytes is shorter than its header.")
    return _invalid("A produce request must carry exactly one record batch for each partition.")


def _is_plain(header: BatchHeader) -> bool:
    """What nearly every batch is, in one go; what is not gets looked at field by field."""
    return (
        header.base_offset == 0
        and header.records_count == header.last_offset_delta + 1 > 0
        and header.attributes & _UNUSUAL_ATTRIBUTES == 0
        and (header.producer_id == NO_PRODUCER_ID or (header.base_sequence >= 0 and header.producer_epoch >= 0))
    )


def _check_header(header: BatchHeader, api_version: int, in_transaction: bool) -> None:
    if header.base_offset != 0:
        raise _invalid(f"A producer's batch starts at offset 0, not at {header.base_offset}.")
    if header.records_count <= 0 or header.last_offset_delta != header.records_count - 1:
        raise _invalid(
            f"The batch counts {header.records_count} records; its last offset delta is {header.last_offset_delta}."
        )
    if header.is_control:
        raise _invalid("Control batches are the broker's to write.")
    if header.is_transactional:
        if not in_transaction:
            raise BrokerError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "A transaction's batch needs a transactional id."
            )
        if header.producer_id == NO_PRODUCER_ID:
            raise _invalid("A transaction's batch needs a producer id.")
    if header.producer_id > NO_PRODUCER_ID and (header.base_sequence < 0 or header.producer_epoch < 0):
        raise _invalid("A batch with a producer id needs an epoch and a sequence.")
    if header.compression > Compression.ZSTD:
        raise _invalid(f"There is no compression codec {header.compression}.")
    if header.compression == Compression.ZSTD and api_version < ZSTD_FIRST_PRODUCE_VERSION:
        raise BrokerError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs Produce version {ZSTD_FIRST_PRODUCE_VERSION} or newer.",
        )


def _check_records(batch: memoryview, header: BatchHeader, rules: BatchRules, now_ms: int) -> None:
    """The long way: every record is looked at, and every wrong one is named."""
    keyless: list[RecordError] = []
    untimely: list[RecordError] = []
    earliest = now_ms - rules.timestamp_before_max_ms
    latest = now_ms + rules.timestamp_after_max_ms
    try:
        for record in record_positions(batch, header, limits.DECOMPRESSED_BATCH_BYTES_MAX):
            if record.offset_delta != record.batch_index:
                raise _invalid(f"Record {record.batch_index} has the offset delta {record.offset_delta}.")
            if rules.requires_keys and not record.has_key:
                keyless.append(RecordError(record.batch_index, "A compacted topic cannot hold a record without a key."))
            if rules.log_append_time or record.timestamp == NO_TIMESTAMP:
                continue
            if not earliest <= record.timestamp <= latest:
                text = f"The timestamp {record.timestamp} is not between {earliest} and {latest}."
                untimely.append(RecordError(record.batch_index, text))
    except ProtocolError as error:
        raise _invalid(f"The batch's records cannot be read: {error}.") from error
    if untimely:
        raise InvalidRecords(
            ErrorCode.INVALID_TIMESTAMP, "Some records' timestamps are out of range.", untimely + keyless
        )
    if keyless:
        raise InvalidRecords(ErrorCode.INVALID_RECORD, "Some records have no key.", keyless)


def _recompressed(
    batch: memoryview, header: BatchHeader, codec: Compression, level: int | None
) -> tuple[memoryview, BatchHeader]:
    try:
        return recompressed(batch, header, codec, level, limits.DECOMPRESSED_BATCH_BYTES_MAX)
    except ProtocolError as error:
        raise _invalid(f"The batch cannot be recompressed: {error}.") from error


def _invalid(message: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_RECORD, message)


def _corrupt(message: str) -> BrokerError:
    return BrokerError(ErrorCode.CORRUPT_MESSAGE, message)

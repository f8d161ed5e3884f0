"""What a producer's bytes must be: every refusal with the code that Kafka's own broker gives for it."""

from __future__ import annotations

import pytest

from penstock.broker.batch_validation import BatchRules, InvalidRecords, validated_batch
from penstock.metadata.config_source import BrokerLayers
from penstock.metadata.topic_config import TopicConfig
from penstock.protocol.compression import Compression
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.record_batch import crc_holds, parse_header
from penstock.protocol.records import record_positions
from tests.record_batches import Record, encode_batch

NOW_MS = 1_700_000_000_000
RECORDS = [Record(b"one", b"k"), Record(b"two", None), Record(None, b"k")]


def rules(**overrides: str) -> BatchRules:
    config = TopicConfig.inherited(BrokerLayers())
    return BatchRules.of(config.with_overrides({name.replace("_", "."): value for name, value in overrides.items()}))


def code_for(records: bytearray | bytes | None, batch_rules: BatchRules | None = None, version: int = 9) -> ErrorCode:
    view = None if records is None else memoryview(bytearray(records))
    with pytest.raises(BrokerError) as refusal:
        validated_batch(view, batch_rules or rules(), version, NOW_MS)
    assert refusal.value.message
    return refusal.value.code


@pytest.mark.parametrize("compression", list(Compression))
def test_a_good_batch_passes_untouched(compression: Compression) -> None:
    sent = encode_batch(RECORDS, compression=compression)
    batch, header = validated_batch(memoryview(bytearray(sent)), rules(), 9, NOW_MS)
    assert bytes(batch) == bytes(sent)
    assert header.records_count == 3


@pytest.mark.parametrize("length", [0, 1, 11, 12, 16, 17, 60, 61, 80])
def test_a_truncated_batch_is_an_invalid_record(length: int) -> None:
    assert code_for(encode_batch(RECORDS)[:length]) == ErrorCode.INVALID_RECORD


def test_no_batch_at_all_is_an_invalid_record() -> None:
    assert code_for(None) == ErrorCode.INVALID_RECORD


def test_two_batches_are_an_invalid_record() -> None:
    assert code_for(encode_batch(RECORDS) + encode_batch(RECORDS)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("position", [21, 30, 60, 61, 70, -1])
def test_a_changed_byte_under_the_crc_is_a_corrupt_message(position: int) -> None:
    sent = encode_batch(RECORDS)
    sent[position] ^= 1
    assert code_for(sent) == ErrorCode.CORRUPT_MESSAGE


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"magic": 0}, ErrorCode.INVALID_RECORD),
        ({"magic": 1}, ErrorCode.INVALID_RECORD),
        ({"magic": 3}, ErrorCode.CORRUPT_MESSAGE),
        ({"magic": -1}, ErrorCode.CORRUPT_MESSAGE),
        ({"batch_length": 2**31 - 1}, ErrorCode.INVALID_RECORD),
        ({"batch_length": -1}, ErrorCode.CORRUPT_MESSAGE),
        ({"batch_length": 5}, ErrorCode.CORRUPT_MESSAGE),
        ({"batch_length": 20}, ErrorCode.CORRUPT_MESSAGE),
        ({"base_offset": 7}, ErrorCode.INVALID_RECORD),
        ({"records_count": 2}, ErrorCode.INVALID_RECORD),
        ({"records_count": 0, "last_offset_delta": -1}, ErrorCode.INVALID_RECORD),
        ({"last_offset_delta": 5}, ErrorCode.INVALID_RECORD),
        ({"attributes": 0x20}, ErrorCode.INVALID_RECORD),
        ({"attributes": 5}, ErrorCode.INVALID_RECORD),
        ({"producer_id": 1, "producer_epoch": 0, "base_sequence": -1}, ErrorCode.INVALID_RECORD),
        ({"producer_id": 1, "producer_epoch": -1, "base_sequence": 0}, ErrorCode.INVALID_RECORD),
        ({"crc": 12345}, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_wrong_header_fields(wrong: dict[str, int], code: ErrorCode) -> None:
    assert code_for(encode_batch(RECORDS, **wrong)) == code  # type: ignore[arg-type]


def test_a_batch_above_max_message_bytes_is_too_large() -> None:
    batch = encode_batch([Record(bytes(2000))])
    assert code_for(batch, rules(max_message_bytes="1000")) == ErrorCode.MESSAGE_TOO_LARGE


def test_zstd_needs_produce_version_7() -> None:
    batch = encode_batch(RECORDS, compression=Compression.ZSTD)
    assert code_for(batch, version=6) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


@pytest.mark.parametrize("compression", list(Compression))
def test_a_compacted_topic_names_every_record_without_a_key(compression: Compression) -> None:
    sent = encode_batch([*RECORDS, Record(b"four", None)], compression=compression)
    with pytest.raises(InvalidRecords) as refusal:
        validated_batch(memoryview(sent), rules(cleanup_policy="compact"), 9, NOW_MS)
    assert refusal.value.code == ErrorCode.INVALID_RECORD
    assert [error.batch_index for error in refusal.value.record_errors] == [1, 3]


def test_timestamps_out_of_range_are_named() -> None:
    too_late = NOW_MS + 2 * 3600 * 1000
    sent = encode_batch([Record(timestamp=NOW_MS), Record(timestamp=too_late)])
    with pytest.raises(InvalidRecords) as refusal:
        validated_batch(memoryview(sent), rules(), 9, NOW_MS)
    assert refusal.value.code == ErrorCode.INVALID_TIMESTAMP
    assert [error.batch_index for error in refusal.value.record_errors] == [1]


def test_timestamps_may_be_bounded_below() -> None:
    sent = encode_batch([Record(timestamp=NOW_MS - 5000), Record(timestamp=NOW_MS)])
    bounded = rules(message_timestamp_before_max_ms="1000")
    assert code_for(sent, bounded) == ErrorCode.INVALID_TIMESTAMP


def test_log_append_time_stamps_the_batch_and_its_crc_holds() -> None:
    sent = encode_batch([Record(timestamp=5), Record(timestamp=9)])
    batch, header = validated_batch(memoryview(sent), rules(message_timestamp_type="LogAppendTime"), 9, NOW_MS)
    assert parse_header(batch) == header
    assert crc_holds(batch, header)
    assert header.max_timestamp == NOW_MS
    assert {record.timestamp for record in record_positions(batch, header, 1 << 20)} == {NOW_MS}


@pytest.mark.parametrize("sent_as", list(Compression))
@pytest.mark.parametrize("kept_as", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_the_topics_compression_replaces_the_producers(sent_as: Compression, kept_as: str) -> None:
    sent = encode_batch(RECORDS * 20, compression=sent_as)
    batch, header = validated_batch(memoryview(sent), rules(compression_type=kept_as), 9, NOW_MS)
    assert crc_holds(batch, header)
    assert parse_header(batch) == header
    assert header.compression == {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[kept_as]
    plain = encode_batch(RECORDS * 20)
    assert list(record_positions(batch, header, 1 << 20)) == list(
        record_positions(memoryview(plain), parse_header(plain), 1 << 20)
    )


def test_a_payload_that_is_not_what_its_codec_says_is_an_invalid_record() -> None:
    sent = encode_batch(RECORDS, attributes=int(Compression.GZIP))
    assert code_for(sent, rules(cleanup_policy="compact")) == ErrorCode.INVALID_RECORD
    assert code_for(sent, rules(compression_type="lz4")) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.LZ4, Compression.ZSTD, Compression.SNAPPY])
def test_a_bomb_is_refused_before_it_unfolds(compression: Compression, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.core.limits.DECOMPRESSED_BATCH_BYTES_MAX", 1 << 20)
    sent = encode_batch([Record(bytes(8 << 20), b"k")], compression=compression)
    assert len(sent) < 1 << 20
    assert code_for(sent, rules(cleanup_policy="compact")) == ErrorCode.INVALID_RECORD

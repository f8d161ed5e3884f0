"""Columns against the simple decoder and encoder, in both directions; and damaged bytes, which must be rejected."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.client.partitioners import murmur2
from penstock.columns.binary_columns import binary_column
from penstock.columns.decoding import COLUMNS_WITH_HEADERS, ColumnLimits, RecordColumns
from penstock.columns.decoding_kernels import MILLISECONDS_MAX, MILLISECONDS_MIN
from penstock.columns.encoding import BatchLimits, ColumnEncoder
from penstock.columns.partitioning import ColumnPartitioner
from penstock.core.errors import ProtocolError
from penstock.protocol.compression import Compression
from penstock.protocol.record_batch import CRC_START, HEADER, HEADER_BYTES, TIMESTAMP_TYPE_FLAG, assign, parse_header
from penstock.protocol.record_encoding import NewRecord, encode_batch
from penstock.protocol.records import Record, read_records

BYTES_MAX = 1 << 20
CONTENT = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=5), CONTENT), max_size=3)
TIMESTAMPS = st.integers(-1, 2**42) | st.integers(-(2**62), 2**62 - 1)
RECORDS = st.lists(
    st.builds(NewRecord, key=CONTENT, value=CONTENT, timestamp=TIMESTAMPS, headers=HEADERS), min_size=1, max_size=12
)
BATCHES = st.lists(st.tuples(RECORDS, st.sampled_from(Compression), st.integers(0, 3)), min_size=1, max_size=5)
LIMITS = st.builds(ColumnLimits, rows_max=st.integers(1, 20), bytes_max=st.integers(1, 2000))


def partition_log(batches: Sequence[tuple[list[NewRecord], Compression, int]]) -> tuple[bytes, list[Record]]:
    """Batches one behind the other, with gaps of some offsets between them, and the records that are in them."""
    log = bytearray()
    records: list[Record] = []
    offset = 0
    for contents, compression, gap in batches:
        batch, _ = encode_batch(contents, compression=compression)
        assign(batch, offset, 0)
        header = parse_header(batch)
        records += read_records(batch, header, BYTES_MAX)
        log += batch
        offset = header.end_offset + gap
    return bytes(log), records


def expected_row(record: Record, partition: int) -> dict[str, Any]:
    milliseconds = min(max(record.timestamp, MILLISECONDS_MIN), MILLISECONDS_MAX)
    return {
        "key": record.key,
        "value": record.value,
        "topic": "töpic",
        "partition": partition,
        "offset": record.offset,
        "timestamp": milliseconds * 1000,
        "timestampType": 0,
        "headers": [{"key": name, "value": value} for name, value in record.headers] or None,
    }


def rows_of(batch: Any) -> list[dict[str, Any]]:
    batch.validate(full=True)
    at = batch.schema.get_field_index("timestamp")
    plain = batch.set_column(at, "timestamp", batch.column(at).cast(pa.int64()))
    rows: list[dict[str, Any]] = plain.to_pylist()
    return rows


@settings(deadline=None)
@given(BATCHES, LIMITS, st.integers(0, 40), st.none() | st.integers(0, 60), st.booleans())
def test_columns_are_what_the_slow_reader_reads(
    batches: list[tuple[list[NewRecord], Compression, int]],
    limits: ColumnLimits,
    start: int,
    end: int | None,
    flushes_between: bool,
) -> None:
    log, records = partition_log(batches)
    columns = RecordColumns("töpic", 3, start, end, columns=COLUMNS_WITH_HEADERS, limits=limits)
    out: list[Any] = []
    position = 0
    while position < len(log):  # each batch in a feed of its own
        size = parse_header(log, position).size
        out += columns.feed(log[position : position + size])
        if flushes_between:
            out += columns.flush()
        position += size
    out += columns.flush()
    wanted = [record for record in records if start <= record.offset and (end is None or record.offset < end)]
    assert [row for batch in out for row in rows_of(batch)] == [expected_row(record, 3) for record in wanted]
    for batch in out:
        assert 1 <= batch.num_rows <= limits.rows_max
        assert batch.num_rows == 1 or sum(_content_bytes(batch)) <= limits.bytes_max
    log_end = records[-1].offset + 1
    assert columns.next_offset == max(start, log_end if end is None else min(log_end, end))


def _content_bytes(batch: Any) -> list[int]:
    return [len(value or b"") for column in ("key", "value") for value in batch.column(column).to_pylist()]


@settings(deadline=None)
@given(BATCHES, st.integers(0, 1 << 16))
def test_a_cut_batch_is_left_for_the_next_fetch(
    batches: list[tuple[list[NewRecord], Compression, int]], cut: int
) -> None:
    log, records = partition_log(batches)
    cut %= len(log) + 1
    columns = RecordColumns("töpic", 0, 0, columns=COLUMNS_WITH_HEADERS)
    rows = [row for batch in [*columns.feed(log[:cut]), *columns.flush()] for row in rows_of(batch)]
    seen = columns.next_offset
    assert rows == [expected_row(record, 0) for record in records if record.offset < seen]
    rows += [row for batch in [*columns.feed(log), *columns.flush()] for row in rows_of(batch)]
    assert rows == [expected_row(record, 0) for record in records]


FLIPS = st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), min_size=1, max_size=6)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(RECORDS, st.sampled_from(Compression), FLIPS, st.booleans(), st.booleans())
def test_damaged_batches_are_read_or_refused(
    contents: list[NewRecord], compression: Compression, flips: list[tuple[int, int]], in_payload: bool, cuts: bool
) -> None:
    """The CRC is made to hold, so that the kernels see the damage. What the slow reader reads too must be the same."""
    batch = bytearray(encode_batch(contents, compression=compression)[0])
    first = HEADER_BYTES if in_payload else 0
    for position, value in flips:
        batch[first + position % (len(batch) - first)] = value
    if cuts:
        del batch[HEADER_BYTES + flips[0][0] % (len(batch) - HEADER_BYTES) :]
        HEADER.pack_into(batch, 0, *parse_header(batch)._replace(batch_length=len(batch) - 12))
    struct.pack_into(">I", batch, CRC_START - 4, crc32c(batch[CRC_START:]))
    columns = RecordColumns(
        "töpic", 0, 0, columns=COLUMNS_WITH_HEADERS, limits=ColumnLimits(1000, BYTES_MAX, BYTES_MAX)
    )
    try:
        out = [*columns.feed(bytes(batch)), *columns.flush()]
    except ProtocolError:
        return
    rows = [row for each in out for row in rows_of(each)]
    header = parse_header(batch)
    if columns.truncated_batch_bytes or header.is_control or header.records_count == 0:
        assert rows == []
        return
    flag = 1 if header.attributes & TIMESTAMP_TYPE_FLAG else 0
    slow = list(read_records(memoryview(batch)[: header.size], header, BYTES_MAX))
    assert rows == [expected_row(record, 0) | {"timestampType": flag} for record in slow]


@settings(deadline=None)
@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    columns = RecordColumns("töpic", 0, 0, columns=COLUMNS_WITH_HEADERS)
    try:
        out = [*columns.feed(content), *columns.flush()]
    except ProtocolError:
        return
    assert sum(batch.num_rows for batch in out) == 0


KEY_TYPES = st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()])


@settings(deadline=None)
@given(
    RECORDS,
    st.sampled_from(Compression),
    st.integers(1, 5),
    st.builds(BatchLimits, rows_max=st.integers(1, 8), bytes_max=st.integers(70, 1500)),
    KEY_TYPES,
    st.integers(0, 5),
)
def test_encoded_columns_are_what_the_slow_reader_reads(
    contents: list[NewRecord],
    compression: Compression,
    partition_count: int,
    limits: BatchLimits,
    key_type: Any,
    skipped: int,
) -> None:
    rows = arrow_rows(contents, key_type).slice(skipped)
    contents = contents[skipped:]
    encoder = ColumnEncoder(ColumnPartitioner(partition_count, rows_per_turn=3), compression=compression, limits=limits)
    read: dict[int, list[Record]] = {}
    for partition, records_count, content in encoder.encode(rows, 0):
        header = parse_header(content)
        assert (header.size, header.records_count) == (len(content), records_count)
        read_back = list(read_records(content, header, BYTES_MAX))
        assert [record.offset for record in read_back] == list(range(records_count))
        assert records_count <= limits.rows_max
        assert records_count == 1 or compression or len(content) <= limits.bytes_max
        assert header.max_timestamp == max(record.timestamp for record in read_back)
        read.setdefault(partition, []).extend(read_back)
        # What it wrote is byte for byte what the slow writer writes.
        slow, _ = encode_batch(
            [NewRecord(r.key, r.value, r.timestamp, r.headers) for r in read_back], compression=compression
        )
        assert bytes(content) == bytes(slow)
    expected: dict[int, list[NewRecord]] = {}
    without_key = 0
    for record in contents:
        if record.key is None:
            partition = without_key // 3 % partition_count
            without_key += 1
        else:
            partition = (murmur2(record.key) & 0x7FFFFFFF) % partition_count
        expected.setdefault(partition, []).append(record)
    assert {
        partition: [NewRecord(each.key, each.value, each.timestamp, each.headers) for each in records]
        for partition, records in read.items()
    } == expected


def arrow_rows(contents: Sequence[NewRecord], key_type: Any) -> Any:
    headers_type = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.RecordBatch.from_arrays(
        [
            pa.array([each.key for each in contents], key_type),
            pa.array([each.value for each in contents], pa.binary()),
            pa.array([each.timestamp for each in contents], pa.int64()).cast(pa.timestamp("ms")),
            pa.array(
                [[{"key": name, "value": value} for name, value in each.headers] or None for each in contents],
                headers_type,
            ),
        ],
        names=["key", "value", "timestamp", "headers"],
    )


@settings(deadline=None)
@given(st.lists(st.binary(max_size=40), min_size=1), st.integers(1, 1000))
def test_keys_go_where_java_sends_them(keys: list[bytes], partition_count: int) -> None:
    column = binary_column(pa.array(keys, pa.binary()), "key")
    targets = ColumnPartitioner(partition_count).targets(len(keys), column)
    assert targets.tolist() == [(murmur2(key) & 0x7FFFFFFF) % partition_count for key in keys]


@pytest.mark.parametrize("position", range(CRC_START, CRC_START + 60))
def test_a_flipped_bit_under_the_crc_is_noticed(position: int) -> None:
    batch = bytearray(encode_batch([NewRecord(b"key", b"value" * 10, 5)])[0])
    batch[position] ^= 1
    with pytest.raises(ProtocolError, match="CRC"):
        list(RecordColumns("t", 0, 0).feed(batch))

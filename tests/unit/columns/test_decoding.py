"""Which records of a fetch response become rows, and their columns."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest
from crc32c import crc32c

from penstock.columns.decoding import COLUMNS, COLUMNS_WITH_HEADERS, ColumnLimits, RecordColumns
from penstock.core.errors import ProtocolError
from penstock.protocol.compression import Compression
from penstock.protocol.control_records import TransactionMarker, encode_marker
from penstock.protocol.record_batch import CRC_START, HEADER, HEADER_BYTES, LOG_OVERHEAD, assign, parse_header
from tests.record_batches import Record, encode_batch, varint


def batch_at(
    offset: int, *values: bytes | None, producer: int = -1, transactional: bool = False, **fields: Any
) -> bytes:
    batch = encode_batch(
        [Record(value) for value in values],
        producer=(producer, 0, 0),
        attributes=0x10 * transactional,
        base_offset=offset,
        **fields,
    )
    return bytes(batch)


def transaction_batch(offset: int, producer: int, *values: bytes) -> bytes:
    return batch_at(offset, *values, producer=producer, transactional=True)


def marker_at(offset: int, producer: int, *, committed: bool) -> bytes:
    marker, _ = encode_marker(producer, 0, TransactionMarker(committed, 0), 5)
    assign(marker, offset, 0)
    return bytes(marker)


def rows(columns: RecordColumns, records: bytes, aborted: list[tuple[int, int]] | None = None) -> list[dict[str, Any]]:
    batches = [*columns.feed(records, aborted or []), *columns.flush()]
    return [row for batch in batches for row in batch.to_pylist()]


def values(columns: RecordColumns, records: bytes, aborted: list[tuple[int, int]] | None = None) -> list[bytes]:
    return [row["value"] for row in rows(columns, records, aborted)]


def test_the_columns_are_those_of_sparks_kafka_source() -> None:
    (batch,) = [
        *(columns := RecordColumns("t", 0, 0, columns=COLUMNS_WITH_HEADERS)).feed(batch_at(0, b"v")),
        *columns.flush(),
    ]
    assert batch.schema.names == [*COLUMNS, "headers"]
    assert str(batch.schema.field("headers").type) == "list<element: struct<key: string, value: binary>>"
    assert batch.schema.field("timestamp").type == pa.timestamp("us", tz="UTC")
    assert batch.schema.field("offset").type == pa.int64()
    assert {batch.schema.field(name).type for name in ("partition", "timestampType")} == {pa.int32()}


def test_only_the_chosen_columns_are_built_in_the_chosen_order() -> None:
    columns = RecordColumns("t", 0, 0, columns=["offset", "value"])
    assert rows(columns, batch_at(7, b"a", None)) == [{"offset": 7, "value": b"a"}, {"offset": 8, "value": None}]


def test_an_unknown_column_is_named() -> None:
    with pytest.raises(ValueError, match="no column 'vlaue'"):
        RecordColumns("t", 0, 0, columns=["vlaue"])


def test_an_aborted_transaction_is_left_out_until_its_marker() -> None:
    log = (
        transaction_batch(0, 7, b"aborted")
        + transaction_batch(1, 8, b"other")
        + batch_at(2, b"plain")
        + batch_at(3, b"not transactional", producer=7)
        + marker_at(4, 7, committed=False)
        + transaction_batch(5, 7, b"next transaction")
        + marker_at(6, 7, committed=True)
        + marker_at(7, 8, committed=True)
    )
    columns = RecordColumns("t", 0, 0)
    assert values(columns, log, [(7, 0)]) == [b"other", b"plain", b"not transactional", b"next transaction"]
    assert columns.next_offset == 8
    uncommitted = [b"aborted", b"other", b"plain", b"not transactional", b"next transaction"]
    assert values(RecordColumns("t", 0, 0), log) == uncommitted


def test_two_aborted_transactions_of_one_producer_in_one_answer() -> None:
    log = (
        transaction_batch(10, 7, b"first")
        + marker_at(11, 7, committed=False)
        + transaction_batch(12, 7, b"kept")
        + marker_at(13, 7, committed=True)
        + transaction_batch(14, 7, b"second")
    )
    columns = RecordColumns("t", 0, 10)
    assert values(columns, log, [(7, 14), (7, 3)]) == [b"kept"]
    assert columns.next_offset == 15


def test_the_next_offset_moves_when_nothing_is_visible() -> None:
    columns = RecordColumns("t", 0, 0)
    assert values(columns, transaction_batch(0, 7, b"a", b"b") + marker_at(2, 7, committed=False), [(7, 0)]) == []
    assert columns.next_offset == 3


def test_what_compaction_leaves() -> None:
    """Gaps between the offsets of a batch and between batches, and batches without a record."""
    payload = b"".join(b"\x0e\0\0" + varint(delta) + b"\1\2" + value + b"\0" for delta, value in [(2, b"a"), (5, b"b")])
    thinned = sealed(0, payload, records_count=2, last_offset_delta=9)
    empty = sealed(10, b"", records_count=0, last_offset_delta=4, attributes=Compression.ZSTD)
    columns = RecordColumns("t", 0, 0)
    got = rows(columns, thinned + empty + batch_at(20, b"c"))
    assert [(row["offset"], row["value"]) for row in got] == [(2, b"a"), (5, b"b"), (20, b"c")]
    assert columns.next_offset == 21


def sealed(offset: int, payload: bytes, **fields: int) -> bytes:
    """A batch around a payload that no producer would send."""
    header = parse_header(encode_batch([Record()], base_offset=offset, **fields))  # type: ignore[arg-type]
    batch = bytearray(HEADER_BYTES) + payload
    HEADER.pack_into(batch, 0, *header._replace(batch_length=len(batch) - LOG_OVERHEAD))
    HEADER.pack_into(batch, 0, *parse_header(batch)._replace(crc=crc32c(batch[CRC_START:])))
    return bytes(batch)


def test_log_append_time_is_the_time_of_every_record() -> None:
    batch = batch_at(0, b"a", b"b", log_append_time=True, max_timestamp=1_800_000_000_123)
    got = rows(RecordColumns("t", 0, 0), batch)
    assert [row["timestampType"] for row in got] == [1, 1]
    assert {row["timestamp"].timestamp() for row in got} == {1_800_000_000.123}


@pytest.mark.parametrize("compression", Compression)
def test_a_value_of_twenty_megabytes(compression: Compression) -> None:
    big = bytes(range(256)) * 80_000
    log = bytes(encode_batch([Record(b"a"), Record(big), Record(b"b")], compression=compression))
    columns = RecordColumns("t", 0, 0, limits=ColumnLimits(bytes_max=1_000_000))
    batches = [*columns.feed(log), *columns.flush()]
    assert [batch.num_rows for batch in batches] == [1, 1, 1]
    assert [value.as_py() for batch in batches for value in batch.column("value")] == [b"a", big, b"b"]


def test_a_decompression_bomb_is_refused() -> None:
    bomb = bytes(encode_batch([Record(bytes(1 << 20))], compression=Compression.GZIP))
    with pytest.raises(ProtocolError, match="decompresses"):
        list(RecordColumns("t", 0, 0, limits=ColumnLimits(decompressed_bytes_max=1 << 16)).feed(bomb))


def test_a_cut_batch_tells_its_size() -> None:
    whole, cut = batch_at(0, b"a"), batch_at(1, b"b" * 1000)
    columns = RecordColumns("t", 0, 0)
    assert values(columns, whole + cut[:-1]) == [b"a"]
    assert (columns.next_offset, columns.truncated_batch_bytes) == (1, len(cut))
    assert values(columns, cut) == [b"b" * 1000]
    assert (columns.next_offset, columns.truncated_batch_bytes) == (2, 0)


def test_the_end_offset_ends_within_a_batch_and_in_a_gap() -> None:
    columns = RecordColumns("t", 0, 1, 3)
    assert values(columns, batch_at(0, b"0", b"1", b"2", b"3")) == [b"1", b"2"]
    assert columns.is_complete
    columns = RecordColumns("t", 0, 0, 5)
    assert values(columns, batch_at(0, b"0") + batch_at(9, b"9")) == [b"0"]
    assert columns.next_offset == 5


def test_small_fetches_are_gathered() -> None:
    columns = RecordColumns("t", 0, 0, limits=ColumnLimits(rows_max=4))
    out = [batch.num_rows for offset in range(0, 10, 2) for batch in columns.feed(batch_at(offset, b"a", b"b"))]
    assert out == [4, 4]
    assert [batch.num_rows for batch in columns.flush()] == [2]


@pytest.mark.parametrize("magic", [0, 1])
def test_old_message_formats_are_refused_by_name(magic: int) -> None:
    with pytest.raises(ProtocolError, match=f"message format v{magic}"):
        list(RecordColumns("t", 0, 0).feed(bytes(16) + bytes([magic]) + bytes(20)))


@pytest.mark.parametrize(
    "fields",
    [
        {"records_count": 1 << 30},
        {"records_count": -1},
        {"records_count": 1},
        {"last_offset_delta": 0},
        {"last_offset_delta": -1},
        {"base_offset": -1},
        {"base_offset": 2**63 - 2},
        {"batch_length": 48},
        {"magic": 3},
        {"attributes": 7},
    ],
)
def test_impossible_headers_are_refused(fields: dict[str, int]) -> None:
    columns = RecordColumns("t", 0, 0)
    batch = bytes(encode_batch([Record(), Record()], **fields))  # type: ignore[arg-type]
    with pytest.raises(ProtocolError):
        [*columns.feed(batch), *columns.flush()]


def test_nothing_to_read_is_no_rows() -> None:
    columns = RecordColumns("t", 0, 3)
    assert values(columns, b"") == []
    assert columns.next_offset == 3


def test_the_broker_needs_none_of_this() -> None:
    """`penstock broker` starts quickly because it never imports Arrow or a compiler."""
    script = (
        "import sys, penstock.broker.main, penstock.cli.main;"
        "print([name for name in ('numba', 'pyarrow', 'numpy', 'pandas') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


def test_reading_needs_no_pandas() -> None:
    """pandas is slow to import, and pyarrow imports it for many functions."""
    script = (
        "import sys; from penstock.columns.decoding import RecordColumns as C; import tests.record_batches as b;"
        "c = C('t', 0, 0); assert [*c.feed(b.encode_batch([b.Record()])), *c.flush()]; print('pandas' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"

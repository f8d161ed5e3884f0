"""Columns into batches: accepted columns, partitioning, and the producer fields of a batch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from penstock.columns.binary_columns import binary_column
from penstock.columns.encoding import BatchLimits, ColumnEncoder
from penstock.columns.partitioning import ColumnPartitioner
from penstock.protocol.compression import Compression
from penstock.protocol.record_batch import crc_holds, parse_header
from penstock.protocol.records import Record, read_records

NOW_MS = 1_700_000_000_000


def encoded(columns: dict[str, Any], partitions: int = 1, **options: Any) -> dict[int, list[Record]]:
    rows = pa.RecordBatch.from_pydict(columns)
    read: dict[int, list[Record]] = {}
    for partition, _, content in ColumnEncoder(ColumnPartitioner(partitions), **options).encode(rows, NOW_MS):
        header = parse_header(content)
        assert crc_holds(content, header)
        read.setdefault(partition, []).extend(read_records(content, header, 1 << 26))
    return read


@pytest.mark.parametrize(
    "arrow_type",
    [
        *(pa.binary(), pa.string(), pa.large_binary(), pa.large_string(), pa.binary_view(), pa.string_view()),
        pa.dictionary(pa.int8(), pa.string()),
    ],
)
def test_keys_and_values_are_bytes_or_text(arrow_type: Any) -> None:
    column = pa.array(["one", None, "", "four"]).cast(arrow_type)
    (records,) = encoded({"key": column, "value": column}).values()
    assert [(each.key, each.value) for each in records] == [(b"one",) * 2, (None,) * 2, (b"",) * 2, (b"four",) * 2]


def test_a_missing_column_is_null() -> None:
    (records,) = encoded({"other": pa.array([1, 2])}).values()
    assert [(each.key, each.value, each.headers, each.timestamp) for each in records] == [(None, None, [], NOW_MS)] * 2


def test_a_column_of_nothing_is_null() -> None:
    (records,) = encoded({"value": pa.nulls(2)}).values()
    assert [each.value for each in records] == [None, None]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"value": pa.array([1])}, "'value' is int64"),
        ({"headers": pa.array(["a"])}, "'headers' is string"),
        ({"headers": pa.array([[{"name": "a"}]])}, "fields key and value"),
        ({"headers": pa.array([[{"key": None, "value": b""}]])}, "without a key"),
        ({"headers": pa.array([[None, {"key": "a", "value": b""}]])}, "without a key"),
        ({"timestamp": pa.array([1])}, "'timestamp' is int64"),
        ({"partition": pa.array(["a"])}, "'partition' is string"),
        ({"partition": pa.array([None, 4])}, "contains 4; the topic's partitions are 0 to 3"),
        ({"partition": pa.array([-1])}, "contains -1"),
    ],
)
def test_columns_of_other_types_are_refused(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encoded(columns, partitions=4)


@pytest.mark.parametrize(("unit", "per_second"), [("s", 1), ("ms", 1000), ("us", 10**6), ("ns", 10**9)])
def test_timestamps_of_any_unit(unit: str, per_second: int) -> None:
    column = pa.array([-5 * per_second, None, 7 * per_second], pa.int64()).cast(pa.timestamp(unit, tz="UTC"))
    (records,) = encoded({"timestamp": column}).values()
    assert [each.timestamp for each in records] == [-5000, NOW_MS, 7000]


def test_a_timestamp_between_milliseconds_is_the_earlier_one() -> None:
    column = pa.array([-1, 1999], pa.int64()).cast(pa.timestamp("us"))
    (records,) = encoded({"timestamp": column}).values()
    assert [each.timestamp for each in records] == [-1, 1]


def test_a_slice_of_columns_is_only_that() -> None:
    headers = pa.array(
        [[], [{"key": "a", "value": b"1"}], None, [{"key": "b", "value": None}], [{"key": "c", "value": b""}]]
    )
    rows = pa.RecordBatch.from_pydict({"value": pa.array([b"0", None, b"2", b"3", b"4"]), "headers": headers})
    ((_, _, content),) = ColumnEncoder(ColumnPartitioner(1)).encode(rows.slice(1, 3), NOW_MS)
    records = list(read_records(content, parse_header(content), 1 << 20))
    assert [(each.value, each.headers) for each in records] == [
        (None, [("a", b"1")]),
        (b"2", []),
        (b"3", [("b", None)]),
    ]


def test_a_given_partition_beats_the_key() -> None:
    read = encoded(
        {
            "key": pa.array([b"k"] * 3),
            "value": pa.array([b"0", b"1", b"2"]),
            "partition": pa.array([2, None, 0], pa.int8()),
        },
        partitions=3,
    )
    by_key = int(ColumnPartitioner(3).targets(1, binary_column(pa.array([b"k"]), "key"))[0])
    assert {partition: [each.value for each in records] for partition, records in read.items()} == {
        partition: [value for value, target in [(b"0", 2), (b"1", by_key), (b"2", 0)] if target == partition]
        for partition in {2, by_key, 0}
    }


def test_rows_without_a_key_take_turns() -> None:
    partitioner = ColumnPartitioner(3, first_turn=2, rows_per_turn=2)
    assert partitioner.targets(5).tolist() == [2, 2, 0, 0, 1]
    assert partitioner.targets(2).tolist() == [2, 2]
    assert partitioner.targets(1).tolist() == [0]


def test_a_row_larger_than_a_batch_has_one_of_its_own() -> None:
    values = [b"a", b"b" * 20_000_000, b"c", b"d"]
    rows = pa.RecordBatch.from_pydict({"value": pa.array(values)})
    batches = list(ColumnEncoder(ColumnPartitioner(1), limits=BatchLimits(bytes_max=1000)).encode(rows, NOW_MS))
    assert [batch.records_count for batch in batches] == [1, 1, 2]
    read = [each.value for _, _, content in batches for each in read_records(content, parse_header(content), 1 << 26)]
    assert read == values


def test_batches_that_were_given_out_stay_as_they_are() -> None:
    rows = pa.RecordBatch.from_pydict({"value": pa.array([b"%d" % index * 90 for index in range(200)])})
    encoder = ColumnEncoder(ColumnPartitioner(1), limits=BatchLimits(bytes_max=3000))
    kept = [(batch.content, bytes(batch.content)) for batch in encoder.encode(rows, NOW_MS)]
    list(encoder.encode(rows, NOW_MS))
    assert all(bytes(content) == before for content, before in kept)


@pytest.mark.parametrize("compression", Compression)
@pytest.mark.parametrize("transactional", [False, True])
def test_an_encoded_batch_has_no_producer(compression: Compression, transactional: bool) -> None:
    rows = pa.RecordBatch.from_pydict({"value": pa.array([b"v"] * 50)})
    encoder = ColumnEncoder(ColumnPartitioner(1), compression=compression, transactional=transactional)
    ((_, _, content),) = encoder.encode(rows, NOW_MS)
    header = parse_header(content)
    assert crc_holds(content, header)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert (header.is_transactional, header.compression, header.records_count) == (transactional, compression, 50)


def test_kernels_compile_where_no_cache_can_be_written(tmp_path: Path) -> None:
    """A read-only installation and a user without a home: slower, but it works."""
    script = (
        "from numba.core import caching\n"
        "caching.CacheImpl._locator_classes = []\n"
        "from penstock.columns.partitioning import ColumnPartitioner\n"
        "print(ColumnPartitioner(3).targets(2).tolist())\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert ran.stdout.strip() == "[0, 0]"

"""Encodes Arrow columns into record batches, partition by partition.

Owns: the limits of a batch, its header, compression and CRC.
Must never know: connections, producers, Spark, and the time, which is passed in.

Invariant: rows of one partition keep their order within and across batches.
Invariant: no Python object is created per row; kernels loop over rows (`encoding_kernels.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.columns.binary_columns import (
    NO_BINARY,
    NO_HEADERS,
    BinaryColumn,
    HeaderColumns,
    binary_column,
    header_columns,
    numbers_of,
    validity_of,
)
from penstock.columns.encoding_kernels import encode_records
from penstock.columns.partitioning import ColumnPartitioner
from penstock.core.ids import NO_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from penstock.protocol.compression import Compression, compress
from penstock.protocol.record_batch import (
    HEADER_BYTES,
    LOG_OVERHEAD,
    MAGIC_V2,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    seal,
)

# Units per millisecond. Seconds, the only coarser unit, are cast first.
_PER_MILLISECOND: Final = {"ms": 1, "us": 1000, "ns": 1_000_000}


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The maximum size of a record batch before compression; a larger row gets its own batch.

    The default is below the brokers' default `message.max.bytes`.
    """

    rows_max: int = 16 * 1024
    bytes_max: int = 1_000_000

    def __post_init__(self) -> None:
        if self.rows_max < 1 or not HEADER_BYTES < self.bytes_max <= 1 << 30:
            raise ValueError("a batch must allow at least one row and its header, and at most a gigabyte")


class EncodedBatch(NamedTuple):
    """A complete record batch without a producer: the sender sets the producer fields."""

    partition: int
    records_count: int
    content: memoryview


class _Columns(NamedTuple):
    timestamps: NDArray[np.int64]
    keys: BinaryColumn
    values: BinaryColumn
    headers: HeaderColumns


class ColumnEncoder:
    """Encodes the rows of one task. It keeps the sticky partition of rows without a key."""

    def __init__(
        self,
        partitioner: ColumnPartitioner,
        *,
        compression: Compression = Compression.NONE,
        compression_level: int | None = None,
        transactional: bool = False,
        limits: BatchLimits | None = None,
    ) -> None:
        self._partitioner = partitioner
        self._compression = compression
        self._compression_level = compression_level
        self._attributes = compression | TRANSACTIONAL_FLAG * transactional
        self._limits = limits or BatchLimits()
        self._scratch = np.empty(self._limits.bytes_max, np.uint8)

    def encode(self, rows: Any, now_ms: int) -> Iterator[EncodedBatch]:
        """The batches of one pyarrow RecordBatch, partition by partition.

        Columns: `key`, `value` (binary or string), `headers` (list of key and value), `timestamp` (null: `now_ms`),
        `partition` (null: by key). All are optional, and others are ignored. A column of a wrong type raises
        ValueError.
        """
        if rows.num_rows == 0:
            return
        columns = _columns_of(rows, now_ms)
        partitions = _column(rows, "partition")
        targets = self._partitioner.targets(rows.num_rows, columns.keys, partitions)
        order, ends = self._partitioner.grouped(targets)
        first = 0
        for partition in np.flatnonzero(np.diff(ends, prepend=0)).tolist():
            end = int(ends[partition])
            while first < end:
                records_count, content = self._encode_batch(columns, order, first, end)
                yield EncodedBatch(partition, records_count, content)
                first += records_count

    def _encode_batch(
        self, columns: _Columns, order: NDArray[np.int32], first: int, end: int
    ) -> tuple[int, memoryview]:
        end = min(end, first + self._limits.rows_max)
        out = self._scratch
        encoded_end, position, max_timestamp = _encode(out, columns, order, first, end)
        if encoded_end == first:  # the row exceeds the batch limit
            out = np.empty(position, np.uint8)
            encoded_end, position, max_timestamp = _encode(out, columns, order, first, first + 1)
        records_count = encoded_end - first
        if self._compression != Compression.NONE:
            payload = compress(self._compression, out.data[HEADER_BYTES:position], self._compression_level)
            content = memoryview(bytearray(HEADER_BYTES) + payload)
        elif position * 2 < out.size:
            content = memoryview(bytearray(out.data[:position]))
        else:  # a well-filled buffer is handed over instead of copied
            content = out.data[:position]
            if out is self._scratch:
                self._scratch = np.empty(self._limits.bytes_max, np.uint8)
        header = BatchHeader(
            base_offset=0,
            batch_length=len(content) - LOG_OVERHEAD,
            partition_leader_epoch=NO_LEADER_EPOCH,
            magic=MAGIC_V2,
            crc=0,
            attributes=self._attributes,
            last_offset_delta=records_count - 1,
            base_timestamp=int(columns.timestamps[order[first]]),
            max_timestamp=max_timestamp,
            producer_id=NO_PRODUCER_ID,
            producer_epoch=NO_PRODUCER_EPOCH,
            base_sequence=NO_SEQUENCE,
            records_count=records_count,
        )
        seal(content, header)
        return records_count, content


def _encode(
    out: NDArray[np.uint8], columns: _Columns, order: NDArray[np.int32], first: int, end: int
) -> tuple[int, int, int]:
    headers = columns.headers
    encoded_end, position, max_timestamp = encode_records(
        *(out, HEADER_BYTES, order, first, end, columns.timestamps),
        *columns.keys,
        *columns.values,
        *(headers.starts, headers.counts),
        *headers.names,
        *headers.values,
    )
    return encoded_end, position, max_timestamp


def _columns_of(rows: Any, now_ms: int) -> _Columns:
    keys, values, headers = (_column(rows, name) for name in ("key", "value", "headers"))
    return _Columns(
        timestamps=_milliseconds(_column(rows, "timestamp"), rows.num_rows, now_ms),
        keys=NO_BINARY if keys is None else binary_column(keys, "key"),
        values=NO_BINARY if values is None else binary_column(values, "value"),
        headers=NO_HEADERS if headers is None else header_columns(headers),
    )


def _column(rows: Any, name: str) -> Any:
    index = rows.schema.get_field_index(name)
    return None if index < 0 else rows.column(index)


def _milliseconds(timestamps: Any, rows: int, now_ms: int) -> NDArray[np.int64]:
    if timestamps is None:
        return np.full(rows, now_ms, np.int64)
    if not pa.types.is_timestamp(timestamps.type):
        raise ValueError(f"column 'timestamp' is {timestamps.type}; it must be a timestamp")
    if timestamps.type.unit == "s":
        timestamps = timestamps.cast(pa.timestamp("ms", tz=timestamps.type.tz))
    milliseconds = numbers_of(timestamps, np.dtype(np.int64)) // _PER_MILLISECOND[timestamps.type.unit]
    return np.where(validity_of(timestamps), milliseconds, now_ms) if timestamps.null_count else milliseconds

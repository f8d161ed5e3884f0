"""A builder of an Arrow batch of records, and its schema.

Owns: the memory of the columns, and their assembly. Kernels loop over the records.
Must never know: where the records come from.

Columns and types are those of Spark's own Kafka source. Memory comes from Arrow's pool, which reuses released memory:
fresh memory costs a page fault per four kilobytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from penstock.columns.decoding_kernels import DONE, FULL, copy_headers, decode_records, measure_headers
from penstock.core.errors import ProtocolError

_HEADER_TYPE: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

FIELDS: Final = {
    "key": pa.field("key", pa.binary()),
    "value": pa.field("value", pa.binary()),
    "topic": pa.field("topic", pa.string()),
    "partition": pa.field("partition", pa.int32()),
    "offset": pa.field("offset", pa.int64()),
    "timestamp": pa.field("timestamp", pa.timestamp("us", tz="UTC")),
    "timestampType": pa.field("timestampType", pa.int32()),
    # Spark also compares the element names of list types.
    "headers": pa.field("headers", pa.list_(pa.field("element", _HEADER_TYPE))),
}


class RecordSpan(NamedTuple):
    """Records of one batch that are not rows yet: `records_count` of them in `payload[position:end]`."""

    payload: NDArray[np.uint8]
    position: int
    end: int
    records_count: int
    base_offset: int
    last_offset_delta: int
    base_timestamp: int
    uses_log_append_time: bool
    offset_min: int
    offset_end: int


class _Growing(NamedTuple):
    """A binary column: the arrays that kernels write, and their Arrow buffers."""

    wanted: bool
    offsets: NDArray[np.int32]
    content: NDArray[np.uint8]
    validity: NDArray[np.uint8]
    offsets_buffer: Any
    content_buffer: Any

    def finished(self, arrow_type: Any, rows: int) -> Any:
        used = int(self.offsets[rows])
        buffers = [pa.py_buffer(self.validity), self.offsets_buffer, self.content_buffer.slice(0, used)]
        return pa.Array.from_buffers(arrow_type, rows, buffers)


class ArrowRows:
    """Space for `rows_max` rows whose keys and values have up to `content_bytes_max` bytes each."""

    def __init__(self, columns: Sequence[str], rows_max: int, content_bytes_max: int) -> None:
        self._columns = columns
        self._key = _binary_column("key" in columns, rows_max, content_bytes_max)
        self._value = _binary_column("value" in columns, rows_max, content_bytes_max)
        self._offsets_buffer, self._offsets = _allocate(np.dtype(np.int64), rows_max)
        self._timestamps_buffer, self._timestamps = _allocate(np.dtype(np.int64), rows_max)
        self._timestamp_types_buffer, self._timestamp_types = _allocate(np.dtype(np.int32), rows_max)
        self._wants_headers = "headers" in columns
        self._header_starts = np.empty(rows_max if self._wants_headers else 0, np.int64)
        self._header_ends = np.empty(rows_max if self._wants_headers else 0, np.int64)
        self._header_sources: list[tuple[NDArray[np.uint8], int, int]] = []
        self._bytes = 0
        self.rows = 0

    def append(self, span: RecordSpan, row_bytes_max: int) -> RecordSpan | None:
        """Appends a span's records as rows; returns the rest of the span when no more rows fit."""
        first_row = self.rows
        consumed, position, self.rows, self._bytes, status = decode_records(
            *(span.payload, span.position, span.end, span.records_count),
            *(span.base_offset, span.last_offset_delta, span.base_timestamp, span.uses_log_append_time),
            *(span.offset_min, span.offset_end),
            *(first_row, self._bytes, row_bytes_max),
            *(self._offsets, self._timestamps),
            *self._key[:4],
            *self._value[:4],
            *(self._wants_headers, self._header_starts, self._header_ends),
        )
        if status not in (DONE, FULL):
            raise ProtocolError(
                f"record {consumed} of the last {span.records_count} in the batch at offset {span.base_offset}"
                " is malformed"
            )
        self._timestamp_types[first_row : self.rows] = span.uses_log_append_time
        if self._wants_headers and self.rows > first_row:
            self._header_sources.append((span.payload, first_row, self.rows))
        if status == FULL:
            return span._replace(position=position, records_count=span.records_count - consumed)
        if position != span.end:
            raise ProtocolError(
                f"{span.end - position} bytes are left after the last record of the batch at offset {span.base_offset}"
            )
        return None

    def finish(self, topic: Any, partition: Any) -> Any:
        """The rows as a pyarrow RecordBatch; `topic` and `partition` are columns with at least as many rows."""
        rows = self.rows
        arrays = []
        for column in self._columns:
            match column:
                case "key":
                    array = self._key.finished(pa.binary(), rows)
                case "value":
                    array = self._value.finished(pa.binary(), rows)
                case "topic":
                    array = topic.slice(0, rows)
                case "partition":
                    array = partition.slice(0, rows)
                case "offset":
                    array = _numbers(column, rows, self._offsets_buffer)
                case "timestamp":
                    array = _numbers(column, rows, self._timestamps_buffer)
                case "timestampType":
                    array = _numbers(column, rows, self._timestamp_types_buffer)
                case _:
                    array = self._headers()
            arrays.append(array)
        return pa.RecordBatch.from_arrays(arrays, schema=schema_of(self._columns))

    def _headers(self) -> Any:
        starts, ends = self._header_starts, self._header_ends
        count = name_bytes = value_bytes = 0
        for payload, first_row, end_row in self._header_sources:
            *measured, status = measure_headers(payload, starts, ends, first_row, end_row)
            if status != DONE:
                raise ProtocolError("the headers of a record are malformed")
            count += measured[0]
            name_bytes += measured[1]
            value_bytes += measured[2]
        lists = _binary_column(True, self.rows, 0)
        names = _binary_column(True, count, name_bytes)
        values = _binary_column(True, count, value_bytes)
        header = 0
        for payload, first_row, end_row in self._header_sources:
            header = copy_headers(
                *(payload, starts, ends, first_row, end_row, header),
                *(lists.offsets, lists.validity),
                *(names.offsets, names.content),
                *(values.offsets, values.content, values.validity),
            )
        name_array = pa.Array.from_buffers(pa.string(), count, [None, names.offsets_buffer, names.content_buffer])
        try:
            name_array.validate(full=True)
        except pa.ArrowInvalid as error:
            raise ProtocolError("the name of a header is not UTF-8") from error
        headers = pa.StructArray.from_arrays([name_array, values.finished(pa.binary(), count)], type=_HEADER_TYPE)
        return pa.Array.from_buffers(
            FIELDS["headers"].type, self.rows, [pa.py_buffer(lists.validity), lists.offsets_buffer], children=[headers]
        )


def schema_of(columns: Sequence[str]) -> Any:
    """The Arrow schema of these columns, in this order."""
    return pa.schema([FIELDS[column] for column in columns])


def repeated_text(text: str, rows: int) -> Any:
    """A string column with the same value in every row."""
    content = text.encode()
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(len(content))
    return pa.Array.from_buffers(pa.string(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(content * rows)])


def repeated_number(number: int, rows: int) -> Any:
    """An int32 column with the same value in every row."""
    return pa.Array.from_buffers(pa.int32(), rows, [None, pa.py_buffer(np.full(rows, number, np.int32))])


def _numbers(column: str, rows: int, buffer: Any) -> Any:
    arrow_type = FIELDS[column].type
    return pa.Array.from_buffers(arrow_type, rows, [None, buffer.slice(0, rows * arrow_type.byte_width)])


def _binary_column(wanted: bool, rows: int, content_bytes: int) -> _Growing:
    offsets_buffer, offsets = _allocate(np.dtype(np.int32), rows + 1 if wanted else 1)
    content_buffer, content = _allocate(np.dtype(np.uint8), content_bytes if wanted else 0)
    offsets[0] = 0
    return _Growing(wanted, offsets, content, np.zeros((rows + 7) // 8, np.uint8), offsets_buffer, content_buffer)


def _allocate(dtype: np.dtype[Any], count: int) -> tuple[Any, NDArray[Any]]:
    buffer = pa.allocate_buffer(count * dtype.itemsize)
    if count == 0:
        return buffer, np.empty(0, dtype)
    return buffer, np.frombuffer(buffer, dtype)

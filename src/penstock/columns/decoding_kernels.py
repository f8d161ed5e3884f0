"""Compiled loops that decode the records of a batch into the buffers of Arrow columns.

Owns: the work per record. `arrow_rows.py` does the work per batch and is the only caller.
Must never know: pyarrow, batch headers, compression, Python objects.

For compilation and caching see `kernel_compilation.py`.

Invariant: a decoding kernel reads nothing outside `payload[position:end]` and writes nothing outside its arrays,
whatever the bytes are. numba does not check indices, so each read and each copy is checked here.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from penstock.columns.kernel_compilation import (
    BINARY_OUT,
    BYTES_IN,
    BYTES_OUT,
    FLAG,
    INT,
    INT32S_OUT,
    INT64S_IN,
    INT64S_OUT,
    compiled,
    inlined,
    integers,
)
from penstock.columns.kernel_intrinsics import copy_bytes
from penstock.columns.kernel_varints import read_varint

# The status of a decoding kernel.
DONE: Final = 0
FULL: Final = 1  # the next record does not fit into the columns; continue with new ones
BAD_RECORD: Final = 2
BAD_OFFSET: Final = 3
BAD_HEADERS: Final = 4

# The shortest record is its length, then one byte each for attributes, deltas, key, value and header count.
SMALLEST_RECORD_BYTES: Final = 7
_SMALLEST_BODY_BYTES: Final = 6

# The range of timestamps that microseconds can represent, in milliseconds.
MILLISECONDS_MAX: Final = (2**63 - 1) // 1000
MILLISECONDS_MIN: Final = -MILLISECONDS_MAX
_INT64_MAX: Final = 2**63 - 1


@inlined
def _microseconds(base_ms: Any, delta_ms: Any) -> Any:
    """A record's timestamp in microseconds; values out of range are clamped."""
    time_ms = base_ms + delta_ms
    if ((base_ms ^ time_ms) & (delta_ms ^ time_ms)) < 0:  # the sum has wrapped around
        time_ms = _INT64_MAX if base_ms > 0 else -_INT64_MAX
    if time_ms > MILLISECONDS_MAX:
        time_ms = MILLISECONDS_MAX
    elif time_ms < MILLISECONDS_MIN:
        time_ms = MILLISECONDS_MIN
    return time_ms * 1000


@inlined
def _set_bit(bitmap: Any, index: Any) -> None:
    bitmap[index >> 3] |= np.uint8(1 << (index & 7))


@compiled(
    integers(5)(
        *(BYTES_IN, INT, INT, INT),
        *(INT, INT, INT, FLAG, INT, INT),
        *(INT, INT, INT),
        *(INT64S_OUT, INT64S_OUT),
        *BINARY_OUT,
        *BINARY_OUT,
        *(FLAG, INT64S_OUT, INT64S_OUT),
    )
)
def decode_records(
    payload: Any,
    position: Any,
    end: Any,
    count: Any,
    base_offset: Any,
    last_offset_delta: Any,
    base_timestamp: Any,
    one_timestamp_for_all: Any,
    offset_min: Any,
    offset_end: Any,
    row: Any,
    row_bytes: Any,
    row_bytes_max: Any,
    offsets: Any,
    timestamps: Any,
    wants_keys: Any,
    key_offsets: Any,
    keys: Any,
    key_validity: Any,
    wants_values: Any,
    value_offsets: Any,
    values: Any,
    value_validity: Any,
    wants_headers: Any,
    header_starts: Any,
    header_ends: Any,
) -> Any:
    """Appends up to `count` records as rows from `row` on; skips those outside `offset_min..offset_end`.

    Rows are appended while the sum of record sizes, `row_bytes`, stays within `row_bytes_max`; the first one always,
    if it fits into the arrays. Headers are only located. The caller ensures that every array has space for
    `len(offsets)` rows, that the validity is zeroed, and that the offsets are filled up to `row`.

    Returns the number of consumed records, the position after them, the new `row` and `row_bytes`, and a status.
    """
    row_capacity = offsets.size
    key_end = np.int64(key_offsets[row]) if wants_keys else np.int64(0)
    value_end = np.int64(value_offsets[row]) if wants_values else np.int64(0)
    for index in range(count):
        record_start = position
        length, position = read_varint(payload, position, end)
        if position > end or length < _SMALLEST_BODY_BYTES or length > end - position:
            return index, record_start, row, row_bytes, BAD_RECORD
        if row >= row_capacity or (row > 0 and row_bytes + length > row_bytes_max):
            return index, record_start, row, row_bytes, FULL
        record_end = position + length

        timestamp_delta, position = read_varint(payload, position + 1, record_end)
        offset_delta, position = read_varint(payload, position, record_end)
        key_length, position = read_varint(payload, position, record_end)
        key_start = position
        if position > record_end or key_length > record_end - position:
            return index, record_start, row, row_bytes, BAD_RECORD
        if key_length > 0:
            position += key_length
        value_length, position = read_varint(payload, position, record_end)
        value_start = position
        if position > record_end or value_length > record_end - position:
            return index, record_start, row, row_bytes, BAD_RECORD
        if value_length > 0:
            position += value_length
        if position == record_end:  # the header count is missing
            return index, record_start, row, row_bytes, BAD_RECORD
        if offset_delta < 0 or offset_delta > last_offset_delta:
            return index, record_start, row, row_bytes, BAD_OFFSET

        offset = base_offset + offset_delta
        if offset_min <= offset < offset_end:
            if wants_keys:
                if key_length > keys.size - key_end:
                    return index, record_start, row, row_bytes, FULL
                if key_length >= 0:
                    copy_bytes(keys, key_end, payload, key_start, key_length)
                    _set_bit(key_validity, row)
                    key_end += key_length
                key_offsets[row + 1] = key_end
            if wants_values:
                if value_length > values.size - value_end:
                    return index, record_start, row, row_bytes, FULL
                if value_length >= 0:
                    copy_bytes(values, value_end, payload, value_start, value_length)
                    _set_bit(value_validity, row)
                    value_end += value_length
                value_offsets[row + 1] = value_end
            if wants_headers:
                header_starts[row] = position
                header_ends[row] = record_end
            offsets[row] = offset
            timestamps[row] = _microseconds(base_timestamp, np.int64(0) if one_timestamp_for_all else timestamp_delta)
            row += 1
            row_bytes += length
        position = record_end
    return count, position, row, row_bytes, DONE


@compiled(integers(4)(BYTES_IN, INT64S_IN, INT64S_IN, INT, INT))
def measure_headers(payload: Any, starts: Any, ends: Any, first_row: Any, end_row: Any) -> Any:
    """The number of headers of the rows, the bytes of their names and values, and a status. Validates all of them."""
    count = np.int64(0)
    name_bytes = np.int64(0)
    value_bytes = np.int64(0)
    for row in range(first_row, end_row):
        end = ends[row]
        announced, position = read_varint(payload, starts[row], end)
        if position > end or announced < 0:
            return count, name_bytes, value_bytes, BAD_HEADERS
        for _ in range(announced):
            length, position = read_varint(payload, position, end)
            if position > end or length < 0 or length > end - position:
                return count, name_bytes, value_bytes, BAD_HEADERS
            position += length
            name_bytes += length
            length, position = read_varint(payload, position, end)
            if position > end or length > end - position:
                return count, name_bytes, value_bytes, BAD_HEADERS
            if length > 0:
                position += length
                value_bytes += length
            count += 1
        if position != end:
            return count, name_bytes, value_bytes, BAD_HEADERS
    return count, name_bytes, value_bytes, DONE


@compiled(
    INT(
        *(BYTES_IN, INT64S_IN, INT64S_IN, INT, INT, INT),
        *(INT32S_OUT, BYTES_OUT),
        *(INT32S_OUT, BYTES_OUT),
        *(INT32S_OUT, BYTES_OUT, BYTES_OUT),
    )
)
def copy_headers(
    payload: Any,
    starts: Any,
    ends: Any,
    first_row: Any,
    end_row: Any,
    header: Any,
    list_offsets: Any,
    list_validity: Any,
    name_offsets: Any,
    names: Any,
    value_offsets: Any,
    values: Any,
    value_validity: Any,
) -> Any:
    """Appends the headers of rows that `measure_headers` has validated; returns the new number of headers.

    A row without headers is null, as in Spark's own Kafka source.
    """
    name_end = np.int64(name_offsets[header])
    value_end = np.int64(value_offsets[header])
    for row in range(first_row, end_row):
        end = ends[row]
        announced, position = read_varint(payload, starts[row], end)
        for _ in range(announced):
            length, position = read_varint(payload, position, end)
            copy_bytes(names, name_end, payload, position, length)
            position += length
            name_end += length
            length, position = read_varint(payload, position, end)
            if length >= 0:
                copy_bytes(values, value_end, payload, position, length)
                _set_bit(value_validity, header)
                position += length
                value_end += length
            header += 1
            name_offsets[header] = name_end
            value_offsets[header] = value_end
        if announced > 0:
            _set_bit(list_validity, row)
        list_offsets[row + 1] = header
    return header

"""The compiled loop that encodes Arrow columns into the records of a batch.

Owns: the work of `encoding.py` per record. For compilation and caching see `kernel_compilation.py`.
Must never know: pyarrow, batch headers, compression, Python objects.

Invariant: nothing is written outside `out`. The columns are trusted: they come from Arrow, not from a peer.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from penstock.columns.kernel_compilation import (
    BINARY_IN,
    BYTES_OUT,
    INT,
    INT32S_IN,
    INT64S_IN,
    compiled,
    inlined,
    integers,
)
from penstock.columns.kernel_intrinsics import copy_bytes, prefetch

_PREFETCH_ROWS: Final = 12
_CACHE_LINE_BYTES: Final = 64


@inlined
def _zigzag(value: Any) -> Any:
    return np.uint64((value << 1) ^ (value >> 63))


@inlined
def _varint_bytes(value: Any) -> Any:
    encoded = _zigzag(value)
    length = 1
    while encoded >= np.uint64(0x80):
        encoded >>= np.uint64(7)
        length += 1
    return length


@inlined
def _write_varint(out: Any, position: Any, value: Any) -> Any:
    encoded = _zigzag(value)
    while encoded >= np.uint64(0x80):
        out[position] = np.uint8(encoded & np.uint64(0x7F)) | np.uint8(0x80)
        position += 1
        encoded >>= np.uint64(7)
    out[position] = np.uint8(encoded)
    return position + 1


@inlined
def _framed_bytes(length: Any) -> Any:
    """The size of a nullable byte string in a record."""
    return _varint_bytes(length) + (length if length > 0 else 0)


@compiled(
    integers(3)(
        *(BYTES_OUT, INT, INT32S_IN, INT, INT, INT64S_IN),
        *BINARY_IN,
        *BINARY_IN,
        *(INT64S_IN, INT64S_IN),
        *BINARY_IN,
        *BINARY_IN,
    )
)
def encode_records(
    out: Any,
    position: Any,
    order: Any,
    first: Any,
    end: Any,
    timestamps: Any,
    key_starts: Any,
    key_lengths: Any,
    keys: Any,
    value_starts: Any,
    value_lengths: Any,
    values: Any,
    header_starts: Any,
    header_counts: Any,
    name_starts: Any,
    name_lengths: Any,
    names: Any,
    header_value_starts: Any,
    header_value_lengths: Any,
    header_values: Any,
) -> Any:
    """Writes the rows `order[first:end]` as records from `position` on, as many as fit into `out`.

    Empty arrays stand for a missing column. Returns the index in `order` after the last written row, the position after
    it, and the max timestamp; if no row fits, `first` and the required size of `out`.
    """
    capacity = out.size
    has_keys = key_lengths.size > 0
    has_values = value_lengths.size > 0
    has_headers = header_counts.size > 0
    base_timestamp = timestamps[order[first]]
    max_timestamp = base_timestamp
    for index in range(first, end):
        row = order[index]
        if index + _PREFETCH_ROWS < end:  # rows of one partition are not adjacent, so hardware prefetching fails
            later_row = order[index + _PREFETCH_ROWS]
            if has_values:
                prefetch(values, value_starts[later_row])
                prefetch(values, value_starts[later_row] + _CACHE_LINE_BYTES)
            if has_keys:
                prefetch(keys, key_starts[later_row])
        timestamp_delta = timestamps[row] - base_timestamp
        offset_delta = np.int64(index - first)
        key_length = key_lengths[row] if has_keys else np.int64(-1)
        value_length = value_lengths[row] if has_values else np.int64(-1)

        body = 2 + _varint_bytes(timestamp_delta) + _varint_bytes(offset_delta)
        body += _framed_bytes(key_length) + _framed_bytes(value_length)
        if has_headers:
            header_count = header_counts[row]
            first_header = header_starts[row]
            body += _varint_bytes(header_count) - 1
            for header in range(first_header, first_header + header_count):
                body += _framed_bytes(name_lengths[header]) + _framed_bytes(header_value_lengths[header])
        if position + _varint_bytes(body) + body > capacity:
            if index == first:
                position += _varint_bytes(body) + body
            return index, position, max_timestamp

        position = _write_varint(out, position, body)
        out[position] = 0  # attributes, which are unused
        position = _write_varint(out, position + 1, timestamp_delta)
        position = _write_varint(out, position, offset_delta)
        # A helper function with two arrays would be clearer, but reference counting at each call halves the speed.
        position = _write_varint(out, position, key_length)
        if key_length > 0:
            copy_bytes(out, position, keys, key_starts[row], key_length)
            position += key_length
        position = _write_varint(out, position, value_length)
        if value_length > 0:
            copy_bytes(out, position, values, value_starts[row], value_length)
            position += value_length
        if has_headers:
            position = _write_varint(out, position, header_count)
            for header in range(first_header, first_header + header_count):
                position = _write_varint(out, position, name_lengths[header])
                copy_bytes(out, position, names, name_starts[header], name_lengths[header])
                position += name_lengths[header]
                position = _write_varint(out, position, header_value_lengths[header])
                if header_value_lengths[header] > 0:
                    copy_bytes(out, position, header_values, header_value_starts[header], header_value_lengths[header])
                    position += header_value_lengths[header]
        else:
            out[position] = 0
            position += 1
        max_timestamp = max(max_timestamp, timestamps[row])
    return end, position, max_timestamp

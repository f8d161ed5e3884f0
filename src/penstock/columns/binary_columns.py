"""Converts Arrow columns of bytes into the plain arrays that encoding kernels read.

Owns: slices, validity bitmaps and the Arrow types for bytes or text.
Must never know: what the bytes are for.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

_NO_NUMBERS: Final[NDArray[np.int64]] = np.empty(0, np.int64)
_NO_BYTES: Final[NDArray[np.uint8]] = np.empty(0, np.uint8)


class BinaryColumn(NamedTuple):
    """Row r is `content[starts[r]:][:lengths[r]]`, or null if that length is -1. Empty if the column is missing."""

    starts: NDArray[np.int64]
    lengths: NDArray[np.int64]
    content: NDArray[np.uint8]


class HeaderColumns(NamedTuple):
    """The headers of row r are `counts[r]` from `starts[r]` on, in the columns of names and values."""

    starts: NDArray[np.int64]
    counts: NDArray[np.int64]
    names: BinaryColumn
    values: BinaryColumn


NO_BINARY: Final = BinaryColumn(_NO_NUMBERS, _NO_NUMBERS, _NO_BYTES)
NO_HEADERS: Final = HeaderColumns(_NO_NUMBERS, _NO_NUMBERS, NO_BINARY, NO_BINARY)


def binary_column(array: Any, name: str) -> BinaryColumn:
    """A column of binary or string values, in any of Arrow's layouts; `name` is for the error message."""
    if not (pa.types.is_binary(array.type) or pa.types.is_string(array.type) or _is_large(array.type)):
        try:
            array = array.cast(pa.large_binary())
        except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
            raise ValueError(f"column {name!r} is {array.type}; it must be binary or string") from error
    validity, offsets, content = array.buffers()
    starts, lengths = _extents(array, validity, offsets, np.dtype(np.int64 if _is_large(array.type) else np.int32))
    return BinaryColumn(starts, lengths, _NO_BYTES if content is None else np.frombuffer(content, np.uint8))


def header_columns(array: Any) -> HeaderColumns:
    """A column of lists of (key, value), as in Spark's Kafka sink; null is an empty list."""
    arrow_type = array.type
    is_large = pa.types.is_large_list(arrow_type)
    if not (is_large or pa.types.is_list(arrow_type)) or not pa.types.is_struct(arrow_type.value_type):
        raise ValueError(f"column 'headers' is {arrow_type}; it must be a list of structs with key and value")
    struct = arrow_type.value_type
    fields = [struct.get_field_index(name) for name in ("key", "value")]
    if min(fields) < 0:
        raise ValueError(f"column 'headers' has structs of {struct}; they must have the fields key and value")
    validity, offsets = array.buffers()[:2]
    starts, counts = _extents(array, validity, offsets, np.dtype(np.int64 if is_large else np.int32))
    counts = np.maximum(counts, 0)
    headers = array.values
    names, values = (headers.field(field) for field in fields)
    first, end = (int(starts[0]), int(starts[-1] + counts[-1])) if len(array) else (0, 0)
    if headers.slice(first, end - first).null_count or names.slice(first, end - first).null_count:
        raise ValueError("column 'headers' has a header without a key")
    return HeaderColumns(starts, counts, binary_column(names, "headers.key"), binary_column(values, "headers.value"))


def validity_of(array: Any) -> NDArray[np.bool_]:
    """Which rows are not null."""
    bitmap = array.buffers()[0]
    if bitmap is None:
        return np.ones(len(array), np.bool_)
    return _bits(bitmap, array.offset, len(array))


def numbers_of(array: Any, dtype: np.dtype[Any]) -> NDArray[Any]:
    """The values of a fixed-width column; values of null rows are undefined."""
    content = array.buffers()[1]
    if content is None:
        return np.zeros(len(array), dtype)
    return np.frombuffer(content, dtype, count=len(array), offset=array.offset * dtype.itemsize)


def _extents(
    array: Any, validity: Any, offsets: Any, dtype: np.dtype[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    rows = len(array)
    if rows == 0 or offsets is None:  # Arrow may omit the offsets of an empty column
        return np.zeros(rows, np.int64), np.zeros(rows, np.int64)
    bounds = np.frombuffer(offsets, dtype, count=rows + 1, offset=array.offset * dtype.itemsize)
    starts = bounds[:-1].astype(np.int64)
    lengths = np.subtract(bounds[1:], bounds[:-1], dtype=np.int64)
    if validity is not None:
        lengths[~_bits(validity, array.offset, rows)] = -1
    return starts, lengths


def _bits(bitmap: Any, first: int, count: int) -> NDArray[np.bool_]:
    skipped = first & 7
    packed = np.frombuffer(bitmap, np.uint8)[first >> 3 : (first + count + 7) >> 3]
    return np.unpackbits(packed, bitorder="little", count=skipped + count)[skipped:].view(np.bool_)


def _is_large(arrow_type: Any) -> bool:
    return bool(pa.types.is_large_binary(arrow_type) or pa.types.is_large_string(arrow_type))

"""Decimals of Connect, which are unscaled big-endian bytes, to Arrow's decimals and back, whole columns at a time.

Owns the two forms. A decimal of more than 76 digits has no Arrow form, and is refused.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_NARROW: Final = 16
_WIDE: Final = 32
_DIGITS: Final = {_NARROW: 38, _WIDE: 76}


def to_decimals(unscaled: pa.Array, scale: int) -> pa.Array:
    """Raises ValueError for a value of too many digits."""
    unscaled = unscaled.cast(pa.large_binary())
    lengths = np.asarray(pc.fill_null(pc.binary_length(unscaled), 0))
    longest = int(lengths.max(initial=0))
    if longest > _WIDE:
        raise ValueError(f"a decimal has more than {_DIGITS[_WIDE]} digits")
    width = _NARROW if longest <= _NARROW else _WIDE
    offsets = np.frombuffer(unscaled.buffers()[1], np.int64)[unscaled.offset : unscaled.offset + len(unscaled) + 1]
    content = unscaled.buffers()[2]
    data = np.frombuffer(content, np.uint8) if content is not None and content.size else np.zeros(1, np.uint8)
    ends, filled = offsets[1:], lengths > 0
    signs = np.where(filled & (data[np.where(filled, offsets[:-1], 0)] >= 0x80), 0xFF, 0).astype(np.uint8)
    # Arrow's decimals are little-endian: the last byte comes first.
    values = np.empty((len(unscaled), width), np.uint8)
    for position in range(width):
        is_there = lengths > position
        values[:, position] = np.where(is_there, data[np.where(is_there, ends - 1 - position, 0)], signs)
    kind = _decimal(width, scale)
    made = pa.Array.from_buffers(kind, len(unscaled), [None, pa.py_buffer(values)])
    try:
        made.validate(full=True)
    except pa.ArrowInvalid:
        if width == _WIDE:
            raise ValueError(f"a decimal has more than {_DIGITS[_WIDE]} digits") from None
        made = _widened(made, values, scale)
    return pc.if_else(pc.is_valid(unscaled), made, pa.scalar(None, made.type))


def _widened(narrow: pa.Array, values: Any, scale: int) -> pa.Array:
    signs = np.where(values[:, -1:] >= 0x80, 0xFF, 0).astype(np.uint8)
    wide = np.concatenate([values, np.repeat(signs, _WIDE - _NARROW, axis=1)], axis=1)
    return pa.Array.from_buffers(_decimal(_WIDE, scale), len(narrow), [None, pa.py_buffer(np.ascontiguousarray(wide))])


def _decimal(width: int, scale: int) -> pa.DataType:
    return pa.decimal128(_DIGITS[_NARROW], scale) if width == _NARROW else pa.decimal256(_DIGITS[_WIDE], scale)


def to_unscaled(decimals: pa.Array) -> pa.Array:
    """The shortest bytes for each value, as Java's BigInteger writes them."""
    width = decimals.type.bit_width // 8
    start = decimals.offset * width
    content = np.frombuffer(decimals.buffers()[1], np.uint8)[start : start + len(decimals) * width]
    values = content.reshape(-1, width)[:, ::-1]
    signs = np.where(values[:, :1] >= 0x80, 0xFF, 0)
    # A leading byte is needless if it only repeats the sign, and the byte behind it has the same sign.
    repeats = (values[:, :-1] == signs) & ((values[:, 1:] >= 0x80) == (signs >= 0x80))
    needless = np.cumprod(repeats, axis=1).sum(axis=1)
    is_valid = np.asarray(decimals.is_valid())
    lengths = np.where(is_valid, width - needless, 0)
    kept = (np.arange(width) >= needless[:, None]) & is_valid[:, None]
    offsets = np.zeros(len(decimals) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(values[kept]))]
    made = pa.Array.from_buffers(pa.binary(), len(decimals), buffers)
    return pc.if_else(decimals.is_valid(), made, pa.scalar(None, pa.binary())) if decimals.null_count else made

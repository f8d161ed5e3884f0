"""Columns of texts, put together from pieces: what is the same in each row, and what each row has. Pure.

Owns how texts are joined, and the texts of floating-point numbers. It must not know schemas, nor any format.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.connect.data.java_objects import double_text, float_text

Piece: TypeAlias = Any
"""A str, which each row has, or a column of texts without nulls."""
_DECIMAL_NOTATION: Final = (1e-3, 1e7)


def joined(pieces: Sequence[Piece], count: int) -> pa.Array:
    """The pieces of each row, one behind the other."""
    merged: list[Piece] = []
    for piece in pieces:
        if isinstance(piece, str) and merged and isinstance(merged[-1], str):
            merged[-1] += piece
        else:
            merged.append(piece)
    if len(merged) == 1:
        only = merged[0]
        return pa.repeat(pa.scalar(only, pa.string()), count) if isinstance(only, str) else only
    return pc.binary_join_element_wise(*merged, "")


def joined_lists(texts: pa.Array, counts: NDArray[Any], separator: str) -> pa.Array:
    """One text for each list. `texts` are those of all elements."""
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pc.binary_join(pa.ListArray.from_arrays(pa.array(offsets), texts), separator)


def filled(texts: pa.Array, text: str = "") -> pa.Array:
    return pc.fill_null(texts, text) if texts.null_count else texts


def each_text(array: pa.Array, write: Callable[[Any], str]) -> pa.Array:
    """One by one; empty for nulls."""
    return pa.array(["" if value is None else write(value) for value in array.to_pylist()], pa.string())


def float_texts(array: pa.Array) -> pa.Array:
    """As `Float.toString` and `Double.toString`; null where the number is.

    Arrow writes the shortest text too, and between 0.001 and 10,000,000 in Java's notation, without the fraction of
    whole numbers. Other numbers are written one by one.
    """
    numbers = np.asarray(array.fill_null(0.0))
    size = np.abs(numbers)
    lowest, end = _DECIMAL_NOTATION
    texts = array.cast(pa.string())
    is_whole = numbers == np.floor(numbers)
    if is_whole.any():
        texts = pc.if_else(pa.array(is_whole), pc.binary_join_element_wise(texts, ".0", ""), texts)
    is_other = ~(((size >= lowest) & (size < end)) | (size == 0))
    if not is_other.any():
        return texts
    write = float_text if pa.types.is_float32(array.type) else double_text
    others = [write(number) for number in numbers[is_other].tolist()]
    return pc.replace_with_mask(texts, pa.array(is_other), pa.array(others, pa.string()))

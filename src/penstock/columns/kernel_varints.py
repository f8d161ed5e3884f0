"""Varints of records, for kernels.

numba's cache detects only changes of a kernel's own file, so touch the files with kernels after a change here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.columns.kernel_compilation import inlined


@inlined
def read_varint(buffer: Any, position: Any, end: Any) -> Any:
    """A zigzag varint and the position after it, which is beyond `end` if the varint is incomplete."""
    value = np.uint64(0)
    shift = np.uint64(0)
    while position < end and shift < np.uint64(64):
        byte = np.uint64(buffer[position])
        position += 1
        value |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            if shift == np.uint64(63) and byte > np.uint64(1):  # more than 64 bits
                break
            return np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1)), position
        shift += np.uint64(7)
    return np.int64(0), end + 1

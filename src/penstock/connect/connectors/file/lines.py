"""Lines of text as Arrow columns, and back, without a Python object for each line. Pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

NEWLINE = b"\n"


def split_lines(data: bytes) -> pa.Array:
    """The lines of `data`, which ends with a newline, without their ends (`\\n` or `\\r\\n`), as strings.

    Bytes that are not UTF-8 are replaced, as Java does.
    """
    if not data:
        return pa.array([], pa.string())
    assert data.endswith(NEWLINE)
    try:
        lines = _split(data)
    except pa.ArrowInvalid:
        lines = _split(data.decode(errors="replace").encode())
    return pc.replace_substring_regex(lines, r"\r$", "") if b"\r\n" in data else lines


def _split(data: bytes) -> pa.Array:
    ends = np.array([0, len(data) - 1], np.int32)
    whole = pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(ends), pa.py_buffer(data)])
    return pc.split_pattern(whole.cast(pa.string()), "\n").flatten()


def join_lines(values: pa.Array) -> bytes:
    """Each value on a line of its own. `values` is string or binary without nulls."""
    if len(values) == 0:
        return b""
    binary = values.cast(pa.binary())
    lines = pc.binary_join_element_wise(binary, pa.scalar(b"", pa.binary()), pa.scalar(NEWLINE, pa.binary()))
    offsets = np.frombuffer(lines.buffers()[1], np.int32)[lines.offset : lines.offset + len(lines) + 1]
    return memoryview(lines.buffers()[2])[offsets[0] : offsets[-1]].tobytes()

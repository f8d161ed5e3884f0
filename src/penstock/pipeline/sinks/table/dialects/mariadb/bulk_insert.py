"""Arrow batches as multi-row INSERT statements, made of whole columns: no Python object for a value or a row.

LOAD DATA LOCAL would be quicker to parse, and lets a server that is not what it seems ask for any file of the client.

Invariant: statements are for a session with NO_BACKSLASH_ESCAPES, in which a doubled quote is all that a text needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.pipeline.sinks.table.errors import RowRefused

_NULL: Final = "NULL"
_ROWS_MAX: Final = 10_000  # that are made into text at once


def insert_statements(head: str, batch: Any, bytes_max: int) -> Iterator[bytes]:
    """`INSERT INTO t (a, b) VALUES (1, 'x'), ...` for all rows, each statement of at most `bytes_max` bytes.

    `head` is what stands before VALUES. Raises RowRefused for a row that does not fit into a statement.
    """
    prefix = f"{head} VALUES ".encode()
    for first in range(0, batch.num_rows, _ROWS_MAX):
        rows = _row_texts(batch.slice(first, _ROWS_MAX))
        offsets = np.frombuffer(rows.buffers()[1], dtype=np.int64)[rows.offset : rows.offset + len(rows) + 1]
        content = rows.buffers()[2]
        room = bytes_max - len(prefix)
        start = 0
        while start < len(rows):
            end = int(np.searchsorted(offsets, offsets[start] + room, side="right")) - 1
            if end <= start:
                raise RowRefused(
                    f"a row takes {int(offsets[start + 1] - offsets[start])} bytes, and the server's"
                    f" max_allowed_packet allows {bytes_max}; raise it, or shorten the row in the transform"
                )
            # Each row ends with a comma, of which the last is one too many.
            yield prefix + content[int(offsets[start]) : int(offsets[end]) - 1].to_pybytes()
            start = end


def _row_texts(batch: Any) -> Any:
    """A large_string array: "(1,'x')," for each row."""
    values = [_literals(name, column) for name, column in zip(batch.schema.names, batch.columns, strict=True)]
    inside = pc.binary_join_element_wise(*values, pa.scalar(",", pa.large_string()))
    parts = (pa.scalar("(", pa.large_string()), inside, pa.scalar("),", pa.large_string()))
    return pc.binary_join_element_wise(*parts, pa.scalar("", pa.large_string()))


def _literals(name: str, column: Any) -> Any:
    """SQL literals of a column's values."""
    kind = column.type
    if pa.types.is_boolean(kind):
        text = column.cast(pa.int8()).cast(pa.large_string())
    elif pa.types.is_integer(kind):
        text = column.cast(pa.large_string())
    elif pa.types.is_floating(kind):
        _require_finite(name, column)
        text = column.cast(pa.large_string())
    elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        text = _enclosed("x'", _hexadecimal(column.cast(pa.large_binary())))
    elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
        text = _enclosed("'", pc.replace_substring(column.cast(pa.large_string()), "'", "''"))
    elif pa.types.is_timestamp(kind):
        text = _enclosed("'", column.cast(pa.timestamp("us")).cast(pa.large_string()))  # the time in UTC, without zone
    else:  # a date; a decimal, which as a bare literal with an exponent would be a double
        text = _enclosed("'", column.cast(pa.large_string()))
    return pc.fill_null(text, _NULL)


def _enclosed(opening: str, text: Any) -> Any:
    ends = (pa.scalar(opening, pa.large_string()), text, pa.scalar("'", pa.large_string()))
    return pc.binary_join_element_wise(*ends, pa.scalar("", pa.large_string()))


def _hexadecimal(column: Any) -> Any:
    """Each byte is two digits, so the digits of all values together are cut at twice the offsets."""
    validity, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[column.offset : column.offset + len(column) + 1]
    first, last = int(ends[0]), int(ends[-1])
    digits = data[first:last].to_pybytes().hex().encode() if data is not None else b""
    doubled = pa.py_buffer((ends - first) * 2)
    made = pa.Array.from_buffers(pa.large_string(), len(column), [None, doubled, pa.py_buffer(digits)])
    if validity is None or not column.null_count:
        return made
    return pc.if_else(pc.is_valid(column), made, pa.scalar(None, pa.large_string()))


def _require_finite(name: str, column: Any) -> None:
    if pc.all(pc.fill_null(pc.is_finite(column), True)).as_py() is False:
        raise RowRefused(
            f"column '{name}' holds NaN or an infinity, which MariaDB cannot store; replace it in the transform, as in"
            f" nullif({name}, double('NaN'))"
        )

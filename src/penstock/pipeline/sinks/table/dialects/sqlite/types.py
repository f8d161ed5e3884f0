"""Which columns of an existing SQLite table fit Spark's types.

Invariant: a type that fits loses nothing: no digits, no fraction, no time zone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import pyarrow as pa

from penstock.pipeline.sinks.table.column_types import ColumnType

_WHOLE: Final = ("INTEGER", "NUMERIC", "BLOB")
_REAL: Final = ("REAL", "NUMERIC", "BLOB")
_TEXT: Final = ("TEXT", "BLOB")
_TEXT_OR_NUMERIC: Final = ("TEXT", "NUMERIC", "BLOB")  # NUMERIC leaves a text that is no number as it is
_FITTING_AFFINITIES: Final = {
    "boolean": _WHOLE,
    "tinyint": _WHOLE,
    "smallint": _WHOLE,
    "int": _WHOLE,
    "bigint": _WHOLE,
    "float": _REAL,
    "double": _REAL,
    "string": _TEXT,
    "binary": ("BLOB",),
    "date": _TEXT_OR_NUMERIC,
    "timestamp": _TEXT_OR_NUMERIC,
    "timestamp_ntz": _TEXT_OR_NUMERIC,
}


def fits(column: ColumnType, declared: str) -> bool:
    return affinity(declared) in _FITTING_AFFINITIES.get(column.spark, _TEXT)  # a decimal is stored as text


def arrow_type(column: ColumnType) -> Any:
    """What the SQLite driver is given: it has no decimals, and text keeps all of their digits."""
    return pa.string() if pa.types.is_decimal(column.arrow) else column.arrow


def affinity(declared: str) -> str:
    """SQLite's own rules, in their order: what a column prefers to store, from the words of its declaration."""
    name = declared.upper()
    rules: Sequence[tuple[str, Callable[[str], bool]]] = (
        ("INTEGER", lambda text: "INT" in text),
        ("TEXT", lambda text: any(word in text for word in ("CHAR", "CLOB", "TEXT"))),
        ("BLOB", lambda text: not text or "BLOB" in text),
        ("REAL", lambda text: any(word in text for word in ("REAL", "FLOA", "DOUB"))),
    )
    return next((found for found, applies in rules if applies(name)), "NUMERIC")

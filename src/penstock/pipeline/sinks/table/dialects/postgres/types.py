"""Which columns of an existing PostgreSQL table fit Spark's types.

Invariant: a type that fits loses nothing: no digits, no fraction, no time zone.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.pipeline.sinks.table.column_types import ColumnType, array_element

_DECIMAL: Final = re.compile(r"(?:decimal|numeric)\((\d+),(\d+)\)")
_UNBOUNDED: Final = "numeric"
_SMALL: Final = ("smallint", "integer", "bigint", _UNBOUNDED)
_FITTING: Final = {
    "boolean": ("boolean",),
    "tinyint": _SMALL,
    "smallint": _SMALL,
    "int": ("integer", "bigint", _UNBOUNDED, "double precision"),
    "bigint": ("bigint", _UNBOUNDED),
    "float": ("real", "double precision"),
    "double": ("double precision",),
    "string": ("text", "character varying", "character", "json", "jsonb", "uuid"),
    "binary": ("bytea",),
    "date": ("date",),
    "timestamp": ("timestamp with time zone",),
    "timestamp_ntz": ("timestamp without time zone",),
    "json": ("jsonb", "json", "text", "character varying"),
}
_DIGITS: Final = {"tinyint": 5, "smallint": 5, "int": 10, "bigint": 19}


def fits(column: ColumnType, existing: str) -> bool:
    """`existing` as format_type() writes it, e.g. `character varying(20)` or `numeric(10,2)`."""
    if (element := array_element(column.spark)) is not None:
        return existing.endswith("[]") and fits(ColumnType(element, None), existing.removesuffix("[]"))
    wanted = _DECIMAL.fullmatch(column.spark)
    there = _DECIMAL.fullmatch(existing)
    if there is not None:
        precision, scale = int(there[1]), int(there[2])
        if wanted is not None:
            return scale >= int(wanted[2]) and precision - scale >= int(wanted[1]) - int(wanted[2])
        digits = _DIGITS.get(column.spark)
        return digits is not None and precision - scale >= digits
    if wanted is not None:
        return existing == _UNBOUNDED
    plain = re.sub(r"\(\d+(,\d+)?\)", "", existing)
    if plain.startswith("timestamp") and plain != existing:
        return False  # fewer digits of a second than there are
    return plain in _FITTING[column.spark]


def same_in_copy(declared: str, existing: str) -> bool:
    """Whether a binary COPY may write a column that is `declared` for a new table into one that is `existing`.

    `existing` as format_type() writes it without its length.
    """
    without_length = re.sub(r"\(\d+(,\d+)?\)", "", declared)
    return existing == without_length or (declared, existing) == ("text", "character varying")

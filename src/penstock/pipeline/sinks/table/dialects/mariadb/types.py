"""Which columns of an existing MariaDB table fit Spark's types.

Invariant: a type that fits loses nothing: no digits, no fraction. Text that is too long is an error of the server.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from penstock.pipeline.sinks.table.column_types import ColumnType
from penstock.pipeline.sinks.table.existing_columns import ExistingColumn

_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_INTEGERS: Final = ("tinyint", "smallint", "mediumint", "int", "bigint")
_TEXTS: Final = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext", "json", "uuid")
_MICROSECONDS: Final = 6
_FITTING: Final = {
    "boolean": _INTEGERS,
    "tinyint": _INTEGERS,
    "smallint": _INTEGERS[1:],
    "int": (*_INTEGERS[3:], "double"),
    "bigint": _INTEGERS[4:],
    "float": ("float", "double"),
    "double": ("double",),
    "string": _TEXTS,
    "binary": ("varbinary", "tinyblob", "blob", "mediumblob", "longblob"),  # BINARY(n) would pad
    "date": ("date",),
    "timestamp": ("datetime", "timestamp"),
    "timestamp_ntz": ("datetime",),
    "json": ("json", "longtext", "mediumtext", "text"),  # MariaDB's JSON is a longtext
}
_DIGITS: Final = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}


@dataclass(frozen=True, slots=True, kw_only=True)
class MariaDbColumn(ExistingColumn):
    """A column as information_schema describes it; `declared` has length and sign, e.g. `int(10) unsigned`."""

    data_type: str
    precision: int | None
    scale: int | None
    fraction_digits: int | None
    collation: str | None
    numbers_itself: bool

    @property
    def ignores_case(self) -> bool:
        return self.collation is not None and not self.collation.endswith("_bin")


def fits(column: ColumnType, existing: MariaDbColumn) -> bool:
    if "unsigned" in existing.declared:
        return False  # a negative number would not fit
    wanted = _DECIMAL.fullmatch(column.spark)
    if existing.data_type == "decimal":
        precision, scale = existing.precision or 0, existing.scale or 0
        if wanted is not None:
            return scale >= int(wanted[2]) and precision - scale >= int(wanted[1]) - int(wanted[2])
        digits = _DIGITS.get(column.spark)
        return digits is not None and precision - scale >= digits
    if wanted is not None:
        return False
    if column.spark.startswith("timestamp") and existing.fraction_digits != _MICROSECONDS:
        return False  # fewer digits of a second than there are
    return existing.data_type in _FITTING[column.spark]

"""Spark's column types and the Arrow types that rows arrive in.

Owns which types a table can have at all, and which become JSON. What a database makes of them is in its `types.py`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from penstock.pipeline.rows.dead_letters import DEAD_LETTER
from penstock.pipeline.sinks.table.errors import TableRefused

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

DELETED: Final = "__deleted"
"""A column beside those of the table: whether a row deletes the one with its key."""
_DECIMAL: Final = re.compile(r"decimal\((\d+),(\d+)\)")
_ARRAY: Final = re.compile(r"array<(.*)>")
_NESTED: Final = ("array<", "map<", "struct<")


@dataclass(frozen=True, slots=True)
class ColumnType:
    """One of Spark's types. `spark` is its name as SQL writes it, `arrow` what its values arrive in."""

    spark: str
    arrow: Any


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: ColumnType


_TYPES: Final[dict[str, ColumnType]] = {
    kind.spark: kind
    for kind in (
        ColumnType("boolean", pa.bool_()),
        ColumnType("tinyint", pa.int8()),
        ColumnType("smallint", pa.int16()),
        ColumnType("int", pa.int32()),
        ColumnType("bigint", pa.int64()),
        ColumnType("float", pa.float32()),
        ColumnType("double", pa.float64()),
        ColumnType("string", pa.string()),
        ColumnType("binary", pa.binary()),
        ColumnType("date", pa.date32()),
        ColumnType("timestamp", pa.timestamp("us", "UTC")),
        ColumnType("timestamp_ntz", pa.timestamp("us")),
    )
}


JSON: Final = ColumnType("json", pa.string())
"""A struct, map or array that Spark has written as JSON text."""


def plain_type(spark: str) -> ColumnType:
    """By its name in Spark's SQL; a decimal is not plain."""
    return _TYPES[spark]


def is_nested(kind: DataType) -> bool:
    """Whether its values have parts: they are arrays of the database, or JSON."""
    written = kind.simpleString()
    return written.startswith(_NESTED) or written == "variant"


def array_element(spark: str) -> str | None:
    """The plain type of an array's elements; None for every other type."""
    match = _ARRAY.fullmatch(spark)
    return match[1] if match and (match[1] in _TYPES or _DECIMAL.fullmatch(match[1])) else None


def columns_of(schema: StructType, json_columns: Collection[str] = ()) -> list[Column]:
    """The columns that go into the table. Raises TableRefused for one that no table can hold, with the remedy."""
    columns = [
        Column(field.name, JSON if field.name in json_columns else _type_of(field.name, field.dataType))
        for field in schema
        if field.name not in (DEAD_LETTER, DELETED)
    ]
    if not columns:
        raise TableRefused("there is no column to write; SELECT at least one")
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            raise TableRefused(f"two columns are called '{column.name}'; give one another name with AS")
        seen.add(column.name.lower())
    return columns


def has_dead_letters(schema: StructType) -> bool:
    return DEAD_LETTER in schema.fieldNames()


def arrow_schema(columns: Sequence[Column]) -> Any:
    return pa.schema([pa.field(column.name, column.type.arrow) for column in columns])


def _plain(written: str) -> ColumnType:
    if match := _DECIMAL.fullmatch(written):
        return ColumnType(written, pa.decimal128(int(match[1]), int(match[2])))
    return _TYPES[written]


def _type_of(name: str, kind: DataType) -> ColumnType:
    written = kind.simpleString()
    if _DECIMAL.fullmatch(written):
        return _plain(written)
    if written.startswith(("char(", "varchar(", "string")):
        return _TYPES["string"]
    if written in _TYPES:
        return _TYPES[written]
    if (element := array_element(written)) is not None:
        return ColumnType(written, pa.list_(_plain(element).arrow))
    if is_nested(kind):
        raise TableRefused(
            f"column '{name}' is {_shortened(written)}, and a table holds plain values; write"
            f" to_json({name}) AS {name}, or SELECT its parts"
        )
    if written == "void":
        raise TableRefused(f"column '{name}' is always null and has no type; write CAST(NULL AS STRING) AS {name}")
    raise TableRefused(
        f"column '{name}' is {written}, which a table cannot hold; write CAST({name} AS STRING) AS {name}"
    )


def _shortened(text: str, characters_max: int = 60) -> str:
    return text if len(text) <= characters_max else f"{text[:characters_max]}..."


def cast_batches(batches: Iterator[Any], schema: Any) -> Iterator[Any]:
    """Spark may hand over a wider type of the same kind (large_string), or another name of UTC."""
    for batch in batches:
        if batch.schema.equals(schema):
            yield batch
        else:
            arrays = [
                column if column.type.equals(field.type) else column.cast(field.type)
                for column, field in zip(batch.columns, schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

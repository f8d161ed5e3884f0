"""The columns of a topic as a DataFrame: names and types as in Spark's own Kafka source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.pipeline.topics.errors import InvalidOption
from penstock.pipeline.topics.option_values import OptionValues

_HEADERS: Final = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))

COLUMN_TYPES: Final[Mapping[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": _HEADERS,
}


def row_schema(options: Mapping[str, str]) -> StructType:
    """All columns, headers only with `includeHeaders`; or those that `columns` names, in its order."""
    values = OptionValues(options)
    chosen = values.text("columns")
    if chosen is None:
        names = [name for name in COLUMN_TYPES if name != "headers" or values.boolean("includeHeaders", False)]
    else:
        canonical = {name.lower(): name for name in COLUMN_TYPES}
        names = []
        for given in (part.strip() for part in chosen.split(",")):
            name = canonical.get(given.lower())
            if name is None or name in names:
                problem = "no such column" if name is None else "named twice"
                raise InvalidOption(f"columns: {given!r} is {problem}; there are {', '.join(COLUMN_TYPES)}")
            names.append(name)
    return StructType([StructField(name, COLUMN_TYPES[name]) for name in names])


def columns_of(schema: StructType) -> tuple[str, ...]:
    """The columns that a reader has to make. A schema of the caller's own may choose and order them, and no more."""
    for field in schema.fields:
        if COLUMN_TYPES.get(field.name) != field.dataType:
            there = ", ".join(f"{name} {kind.simpleString()}" for name, kind in COLUMN_TYPES.items())
            raise InvalidOption(
                f"the schema has {field.name} {field.dataType.simpleString()}; a topic has {there}. Leave the schema "
                "out, and make other columns of these with DataFrame operations"
            )
    return tuple(schema.fieldNames())

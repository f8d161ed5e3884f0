"""The columns that the sink takes: those of Spark's own Kafka sink, or whole record batches made of them beforehand.

Owns the checks that happen before a row is seen, with the reasons that Spark gives. Other columns are left alone, as
Spark leaves them.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    StringType,
    StructField,
    StructType,
)

from penstock.pipeline.topics.errors import InvalidOption

ROW_COLUMNS: Final = ("key", "value", "headers", "partition")
"""What a record is made of; `topic` says where it goes."""

ARRANGED_SCHEMA: Final = StructType(
    [
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("records", IntegerType()),
        StructField("chunk", BinaryType()),
        StructField("writer", IntegerType()),
    ]
)
"""A row is a record batch for one partition, and `writer` the number of the task that it goes to."""


def is_arranged(schema: StructType) -> bool:
    found = [(field.name, field.dataType) for field in schema.fields]
    return found == [(field.name, field.dataType) for field in ARRANGED_SCHEMA.fields]


def input_columns(schema: StructType, topic: str | None) -> list[str]:
    """Those columns of a DataFrame that are written; raises InvalidOption with Spark's reason."""
    types = {field.name: field.dataType for field in schema.fields}
    if topic is None and "topic" not in types:
        raise InvalidOption(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        )
    if topic is None:
        _require(types["topic"], "topic", "a string", isinstance(types["topic"], StringType))
    if "value" not in types:
        raise InvalidOption("Required attribute 'value' not found")
    for name in ("key", "value"):
        if name in types:
            _require(types[name], name, "a string or binary", isinstance(types[name], StringType | BinaryType))
    if "headers" in types:
        _require(types["headers"], "headers", "a array<struct<key:string,value:binary>>", _is_headers(types["headers"]))
    if "partition" in types:
        _require(types["partition"], "partition", "an int", isinstance(types["partition"], IntegerType))
    wanted = ROW_COLUMNS if topic is not None else (*ROW_COLUMNS, "topic")
    return [name for name in wanted if name in types]


def _is_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    found = [(field.name, field.dataType) for field in kind.elementType.fields]
    return found == [("key", StringType()), ("value", BinaryType())]


def _require(kind: DataType, name: str, wanted: str, holds: bool) -> None:
    if not holds:
        raise InvalidOption(f"{name} attribute type must be {wanted}, but it is {kind.simpleString()}")

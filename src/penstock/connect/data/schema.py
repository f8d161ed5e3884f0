"""Connect's schemas: what a key, a value or a header is made of, and the Arrow type that holds it.

Values are kept in the base type of their schema: a Decimal is its unscaled bytes, a Date its days, a Timestamp its
milliseconds. So every value of Connect has exactly one form, and none is rounded.

Owns schemas. It must not know records, converters or topics.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any, Final

import pyarrow as pa


class Type(Enum):
    """The value is the name that Connect's JSON uses."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"


DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
DATE: Final = "org.apache.kafka.connect.data.Date"
TIME: Final = "org.apache.kafka.connect.data.Time"
TIMESTAMP: Final = "org.apache.kafka.connect.data.Timestamp"
DECIMAL_SCALE: Final = "scale"
"""The parameter of a Decimal's schema."""

ARROW_TYPES: Final = {
    Type.INT8: pa.int8(),
    Type.INT16: pa.int16(),
    Type.INT32: pa.int32(),
    Type.INT64: pa.int64(),
    Type.FLOAT32: pa.float32(),
    Type.FLOAT64: pa.float64(),
    Type.BOOLEAN: pa.bool_(),
    Type.STRING: pa.string(),
    Type.BYTES: pa.binary(),
}


@dataclass(frozen=True)
class Schema:
    """Immutable and comparable. `default` is a plain Python value in the base type; a struct's is a dict.

    `parameters` are pairs, so that a schema can be hashed; `parameter` looks one up.
    """

    type: Type
    is_optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    default: Any = None
    fields: tuple[Field, ...] = ()
    key_schema: Schema | None = None
    value_schema: Schema | None = None

    def __hash__(self) -> int:
        # A default may be a dict or a list; equal schemas have equal hashes without it.
        return hash((self.type, self.is_optional, self.name, self.version, self.fields, self.value_schema))

    @cached_property
    def arrow_type(self) -> pa.DataType:
        """Of arrays that hold values of this schema. Fields of a struct are nullable, whatever the schema says."""
        match self.type:
            case Type.ARRAY:
                # SimpleHeaderConverter makes arrays and maps of nothing but nulls, whose elements have no schema.
                element = pa.null() if self.value_schema is None else self.value_schema.arrow_type
                return pa.list_(pa.field("element", element))
            case Type.MAP:
                key = pa.string() if self.key_schema is None else self.key_schema.arrow_type
                value = pa.null() if self.value_schema is None else self.value_schema.arrow_type
                return pa.map_(key, value)
            case Type.STRUCT:
                return pa.struct([pa.field(field.name, field.schema.arrow_type) for field in self.fields])
        return ARROW_TYPES[self.type]

    def parameter(self, name: str) -> str | None:
        return dict(self.parameters).get(name)

    def field(self, name: str) -> Field | None:
        return next((field for field in self.fields if field.name == name), None)

    def optional(self) -> Schema:
        return replace(self, is_optional=True)


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    schema: Schema


def struct(fields: Mapping[str, Schema], *, name: str | None = None, is_optional: bool = False) -> Schema:
    members = tuple(Field(each, schema) for each, schema in fields.items())
    return Schema(Type.STRUCT, is_optional=is_optional, name=name, fields=members)


def decimal(scale: int) -> Schema:
    return Schema(Type.BYTES, name=DECIMAL, version=1, parameters=((DECIMAL_SCALE, str(scale)),))


def date() -> Schema:
    return Schema(Type.INT32, name=DATE, version=1)


def time() -> Schema:
    return Schema(Type.INT32, name=TIME, version=1)


def timestamp() -> Schema:
    return Schema(Type.INT64, name=TIMESTAMP, version=1)


INT8: Final = Schema(Type.INT8)
INT16: Final = Schema(Type.INT16)
INT32: Final = Schema(Type.INT32)
INT64: Final = Schema(Type.INT64)
FLOAT32: Final = Schema(Type.FLOAT32)
FLOAT64: Final = Schema(Type.FLOAT64)
BOOLEAN: Final = Schema(Type.BOOLEAN)
STRING: Final = Schema(Type.STRING)
BYTES: Final = Schema(Type.BYTES)

"""Single JSON values with a schema, as Kafka's JsonConverter reads them.

Jackson's numbers, texts and booleans are forgiving: a text where a number is wanted is 0, a number where a text is
wanted is null, and a number that is too large loses its upper bits.

Owns what a JSON value means under a schema, and the messages for values that mean nothing. Whole columns are read in
`columns.py`. It must not know envelopes, nor how schemas are written.
"""

from __future__ import annotations

import base64
import binascii
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import numpy as np

from penstock.connect.converters.json.jackson import MISSING, Missing
from penstock.connect.converters.json.shapes import low_64_bits
from penstock.connect.data import schema as schemas
from penstock.connect.data.exact_numbers import nearest_float32, unscaled_bytes
from penstock.connect.data.records import DATA_EXCEPTION
from penstock.connect.data.schema import Schema, Type

MILLISECONDS_PER_DAY: Final = 86_400_000
INTEGER_BITS: Final = {Type.INT8: 8, Type.INT16: 16, Type.INT32: 32, Type.INT64: 64}
_EXPONENT_MAX: Final = 10_000
INT_RANGE: Final = (-(1 << 31), (1 << 31) - 1)


class DataError(Exception):
    """A value that does not fit its schema, with Kafka's class and message."""

    def __init__(self, message: str, java_class: str = DATA_EXCEPTION) -> None:
        super().__init__(message)
        self.java_class = java_class


def value_of(schema: Schema, node: Any, *, replace_nulls: bool) -> Any:
    """A plain Python value in the base type of the schema: a struct is a dict, a map a list of pairs. Raises
    DataError."""
    if node is None:
        if schema.default is not None and replace_nulls:
            return schema.default
        if schema.is_optional:
            return None
        raise DataError(f"Invalid null value for required {schema.type.name} field")
    if schema.name in LOGICAL:
        return LOGICAL[schema.name](schema, node)
    match schema.type:
        case Type.BOOLEAN:
            return node is True
        case Type.INT8 | Type.INT16 | Type.INT32 | Type.INT64:
            return _integer(node, INTEGER_BITS[schema.type])
        case Type.FLOAT32:
            return _float32(node)
        case Type.FLOAT64:
            return _float64(node)
        case Type.STRING:
            return node if isinstance(node, str) else None
        case Type.BYTES:
            return _base64_or_error(node) if isinstance(node, str) else None
        case Type.ARRAY:
            return _list(schema, node, replace_nulls=replace_nulls)
        case Type.MAP:
            return _map(schema, node, replace_nulls=replace_nulls)
    return _struct(schema, node, replace_nulls=replace_nulls)


def _list(schema: Schema, node: Any, *, replace_nulls: bool) -> list[Any]:
    """Jackson goes through the members of an object as well, and finds none in anything else."""
    assert schema.value_schema is not None
    members = node if isinstance(node, list) else list(node.values()) if isinstance(node, dict) else []
    return [value_of(schema.value_schema, member, replace_nulls=replace_nulls) for member in members]


def _map(schema: Schema, node: Any, *, replace_nulls: bool) -> list[tuple[Any, Any]]:
    assert schema.key_schema is not None
    assert schema.value_schema is not None
    if schema.key_schema.type is Type.STRING:
        if not isinstance(node, dict):
            raise DataError(f"Maps with string fields should be encoded as JSON objects, but found {node_type(node)}")
        return [
            (name, value_of(schema.value_schema, member, replace_nulls=replace_nulls)) for name, member in node.items()
        ]
    if not isinstance(node, list):
        raise DataError(
            f"Maps with non-string fields should be encoded as JSON array of tuples, but found {node_type(node)}"
        )
    pairs: dict[Any, tuple[Any, Any]] = {}
    for entry in node:
        if not isinstance(entry, list):
            raise DataError(f"Found invalid map entry instead of array tuple: {node_type(entry)}")
        if len(entry) != 2:
            raise DataError(f"Found invalid map entry, expected length 2 but found :{len(entry)}")
        key = value_of(schema.key_schema, entry[0], replace_nulls=replace_nulls)
        value = value_of(schema.value_schema, entry[1], replace_nulls=replace_nulls)
        if key is None:
            raise DataError("Maps with a null key cannot be represented")
        pairs[repr(key)] = (key, value)
    return list(pairs.values())


def _struct(schema: Schema, node: Any, *, replace_nulls: bool) -> dict[str, Any]:
    if not isinstance(node, dict):
        raise DataError(f"Structs should be encoded as JSON objects, but found {node_type(node)}")
    members = {}
    for field in schema.fields:
        member = value_of(field.schema, node.get(field.name), replace_nulls=replace_nulls)
        validate(field.schema, member, f'field: "{field.name}"')
        members[field.name] = member
    return members


def validate(schema: Schema, value: Any, location: str) -> None:
    """What a Struct refuses: nulls that the schema forbids, at any depth. Raises DataError."""
    if value is None:
        if not schema.is_optional:
            raise DataError(f"Invalid value: null used for required {location}, schema type: {schema.type.name}")
        return
    if schema.type is Type.ARRAY:
        assert schema.value_schema is not None
        for member in value:
            validate(schema.value_schema, member, f"element of array {location}")
    elif schema.type is Type.MAP:
        assert schema.value_schema is not None
        for _key, member in value:
            validate(schema.value_schema, member, f"value of map {location}")


def _integer(node: Any, bits: int) -> int:
    """`intValue()` or `longValue()`, and the casts of Java: the lowest bits."""
    if isinstance(node, bool) or not isinstance(node, int | float | Decimal):
        return 0
    number = int(node)
    return ((number + (1 << (bits - 1))) & ((1 << bits) - 1)) - (1 << (bits - 1))


def _float64(node: Any) -> float:
    if isinstance(node, bool) or not isinstance(node, int | float | Decimal):
        return 0.0
    try:
        return float(node) + 0.0  # there is no negative zero
    except OverflowError:
        return float("inf") if node > 0 else float("-inf")


def _float32(node: Any) -> float:
    """Rounded once: `float(node)` and then a float32 may be another number."""
    if isinstance(node, Decimal):
        return nearest_float32(node)
    with np.errstate(over="ignore"):
        return float(np.float32(_float64(node)))


def base64_bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _base64_or_error(text: str) -> bytes:
    try:
        return base64_bytes("".join(text.split()))
    except (binascii.Error, ValueError):
        raise DataError("Invalid bytes field") from None


def scale_of(schema: Schema) -> int:
    text = schema.parameter(schemas.DECIMAL_SCALE)
    if text is None:
        raise DataError("Invalid Decimal schema: scale parameter not found.")
    try:
        return int(text)
    except ValueError:
        raise DataError("Invalid scale parameter found in Decimal schema: ") from None


def _decimal(schema: Schema, node: Any) -> bytes:
    """Values have the scale of their schema here. Kafka keeps a JSON number's own scale, and refuses it when it
    writes."""
    if isinstance(node, str):
        try:
            scale_of(schema)
            unscaled = base64_bytes("".join(node.split()))
            if not unscaled:
                raise ValueError(node)
        except (DataError, binascii.Error, ValueError):
            raise DataError("Invalid bytes for Decimal field") from None
        return unscaled
    if isinstance(node, bool) or not isinstance(node, int | float | Decimal):
        raise DataError(
            "Invalid type for Decimal, underlying representation should be numeric or bytes but was " + node_type(node)
        )
    scale = scale_of(schema)
    number = node if isinstance(node, Decimal) else Decimal(repr(node))
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    scaled = Fraction(number) * Fraction(10) ** scale if abs(exponent) <= _EXPONENT_MAX else None
    if scaled is None or scaled.denominator != 1:
        raise DataError(
            "Decimal value has mismatching scale for given Decimal schema. "
            f"Schema has scale {scale}, value has scale {-exponent}."
        )
    whole = scaled.numerator
    return unscaled_bytes(whole)


def _date(_schema: Schema, node: Any) -> int:
    if isinstance(node, bool) or not isinstance(node, int) or not INT_RANGE[0] <= node <= INT_RANGE[1]:
        raise DataError("Invalid type for Date, underlying representation should be integer but was " + node_type(node))
    return node


def _time(_schema: Schema, node: Any) -> int:
    if isinstance(node, bool) or not isinstance(node, int) or not INT_RANGE[0] <= node <= INT_RANGE[1]:
        raise DataError("Invalid type for Time, underlying representation should be integer but was " + node_type(node))
    if not 0 <= node <= MILLISECONDS_PER_DAY:
        raise DataError("Time values must use number of milliseconds greater than 0 and less than 86400000")
    return node


def _timestamp(_schema: Schema, node: Any) -> int:
    if isinstance(node, bool) or not isinstance(node, int):
        raise DataError(
            "Invalid type for Timestamp, underlying representation should be integral but was " + node_type(node)
        )
    return low_64_bits(node)


LOGICAL: Final[dict[str | None, Any]] = {
    schemas.DECIMAL: _decimal,
    schemas.DATE: _date,
    schemas.TIME: _time,
    schemas.TIMESTAMP: _timestamp,
}


def node_type(node: Any) -> str:
    """Jackson's name for the kind of a value."""
    match node:
        case None:
            return "NULL"
        case Missing():
            return "MISSING"
        case bool():
            return "BOOLEAN"
        case int() | float() | Decimal():
            return "NUMBER"
        case str():
            return "STRING"
        case list():
            return "ARRAY"
    return "OBJECT" if node is not MISSING else "MISSING"

"""Values of Connect as Java shows them: the class that a message names, and the text of `toString()`.

Kafka's messages name Java classes, and StringConverter writes whatever `toString()` returns.

Owns those names and texts. It must not know converters.
"""

from __future__ import annotations

import datetime
import math
import re
import struct
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from penstock.connect.data import schema as schemas
from penstock.connect.data.schema import Schema, Type

_CLASSES: Final = {
    Type.INT8: "java.lang.Byte",
    Type.INT16: "java.lang.Short",
    Type.INT32: "java.lang.Integer",
    Type.INT64: "java.lang.Long",
    Type.FLOAT32: "java.lang.Float",
    Type.FLOAT64: "java.lang.Double",
    Type.BOOLEAN: "java.lang.Boolean",
    Type.STRING: "java.lang.String",
    Type.BYTES: "[B",
    Type.ARRAY: "java.util.ArrayList",
    Type.MAP: "java.util.HashMap",
    Type.STRUCT: "org.apache.kafka.connect.data.Struct",
}
_LOGICAL_CLASSES: Final = {
    schemas.DECIMAL: "java.math.BigDecimal",
    schemas.DATE: "java.util.Date",
    schemas.TIME: "java.util.Date",
    schemas.TIMESTAMP: "java.util.Date",
}
_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")
_DECIMAL_NOTATION: Final = (1e-3, 1e7)
_MILLISECONDS_PER_DAY: Final = 86_400_000
_DATE_FORMAT: Final = "%a %b %d %H:%M:%S UTC %Y"
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def class_of(schema: Schema | None, arrow_type: pa.DataType) -> str:
    """The Java class of a value, as `value.getClass().getName()` says it."""
    if schema is not None:
        return _LOGICAL_CLASSES.get(schema.name or "") or _CLASSES[schema.type]
    if pa.types.is_timestamp(arrow_type):
        return "java.util.Date"
    return _CLASSES[type_of(arrow_type)]


def type_of(arrow_type: pa.DataType) -> Type:
    """Of a value without a schema, from its shape."""
    if pa.types.is_struct(arrow_type) or pa.types.is_map(arrow_type):
        return Type.MAP
    if pa.types.is_list(arrow_type) or pa.types.is_union(arrow_type):
        return Type.ARRAY
    for kind, known in schemas.ARROW_TYPES.items():
        if arrow_type == known:
            return kind
    return Type.STRING


def decode_utf8(content: bytes) -> str:
    """`new String(bytes, UTF_8)`: what is no UTF-8 becomes U+FFFD, and half of a surrogate pair becomes one of them."""
    return _SURROGATE.sub("\ufffd".encode(), content).decode("utf-8", "replace")


def decimal_of(unscaled: bytes, schema: Schema) -> Decimal:
    """A Decimal's value. `decimal.Decimal` keeps the scale, as BigDecimal does."""
    number = int.from_bytes(unscaled, "big", signed=True)
    digits = tuple(int(digit) for digit in str(abs(number)))
    return Decimal((int(number < 0), digits, -int(schema.parameter(schemas.DECIMAL_SCALE) or 0)))


def double_text(number: float) -> str:
    """`Double.toString` of Java 19 and later: the shortest decimal that rounds to the number."""
    return _decimal_text(repr(number), number)


def float_text(number: float) -> str:
    """`Float.toString`, of a number that is a float32."""
    return _decimal_text(str(np.float32(number)), number)


def _decimal_text(shortest: str, number: float) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    lowest, end = _DECIMAL_NOTATION
    if (lowest <= abs(number) < end and "e" not in shortest) or number == 0:
        return shortest if "." in shortest else f"{shortest}.0"
    sign, digits, exponent = Decimal(shortest).as_tuple()
    assert isinstance(exponent, int)
    if len(digits) == 1:
        # Java writes two digits at least, and chooses the nearest of those.
        two = f"{number:.1e}"
        if float(two) == number:
            sign, digits, exponent = Decimal(two).as_tuple()
            assert isinstance(exponent, int)
    text = "".join(map(str, digits)).rstrip("0") or "0"
    power = len(digits) - 1 + exponent
    minus = "-" if sign else ""
    if lowest <= abs(number) < end:
        whole = text[: power + 1].ljust(power + 1, "0") if power >= 0 else "0"
        fraction = text[power + 1 :] if power >= 0 else "0" * (-power - 1) + text
        return f"{minus}{whole}.{fraction or '0'}"
    return f"{minus}{text[0]}.{text[1:] or '0'}E{power}"


def text_of(schema: Schema | None, value: Any) -> str:
    """`toString()` of a value that is not null. Dates are in UTC, where Java takes the time zone of the JVM."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return value
        case float():
            return float_text(value) if schema is not None and schema.type is Type.FLOAT32 else double_text(value)
        case int():
            return str(value) if schema is None else _logical_text(schema, value)
        case datetime.datetime():
            return value.strftime(_DATE_FORMAT)
        case bytes():
            if schema is not None and schema.name == schemas.DECIMAL:
                return decimal_text(decimal_of(value, schema))
            # Java shows the identity of an array, which means nothing outside of the JVM.
            return "[B@" + format(struct.unpack(">I", value[-4:].rjust(4, b"\0"))[0], "x")
        case dict():
            if schema is not None and schema.type is Type.STRUCT:
                # A field that is null is left out.
                members = ((field.name, field.schema, value.get(field.name)) for field in schema.fields)
                shown = (f"{name}={text_of(its, member)}" for name, its, member in members if member is not None)
                return "Struct{" + ",".join(shown) + "}"
            return "{" + ", ".join(f"{name}={text_of(None, member)}" for name, member in value.items()) + "}"
        case list() if schema is not None and schema.type is Type.MAP:
            pairs = (f"{text_of(schema.key_schema, k)}={text_of(schema.value_schema, v)}" for k, v in value)
            return "{" + ", ".join(pairs) + "}"
        case list():
            inner = None if schema is None else schema.value_schema
            return "[" + ", ".join(text_of(inner, member) for member in value) + "]"
    return str(value)


def decimal_text(number: Decimal) -> str:
    """`BigDecimal.toString()`: decimal notation unless the exponent is positive or below -6."""
    sign, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).lstrip("0") or "0"
    adjusted = len(text) - 1 + exponent
    minus = "-" if sign and text != "0" else ""
    if exponent <= 0 and adjusted >= -6:
        if exponent == 0:
            return minus + text
        padded = text.rjust(1 - exponent, "0")
        return f"{minus}{padded[:exponent]}.{padded[exponent:]}"
    fraction = f".{text[1:]}" if len(text) > 1 else ""
    return f"{minus}{text[0]}{fraction}E{adjusted:+d}"


def _logical_text(schema: Schema, number: int) -> str:
    if schema.name not in (schemas.DATE, schemas.TIME, schemas.TIMESTAMP):
        return str(number)
    milliseconds = number * _MILLISECONDS_PER_DAY if schema.name == schemas.DATE else number
    return (_EPOCH + datetime.timedelta(milliseconds=milliseconds)).strftime(_DATE_FORMAT)

"""Texts of header values, as Kafka's `Values.convertToString` writes them. `values.py` is the way back.

Times are in UTC, where Kafka takes the time zone of the JVM.
"""

from __future__ import annotations

import binascii
import datetime
from typing import Any, Final

from penstock.connect.data import schema as schemas
from penstock.connect.data.java_objects import decimal_of, decimal_text, double_text, float_text
from penstock.connect.data.schema import Schema, Type

MILLISECONDS_PER_DAY: Final = 86_400_000
_EPOCH: Final = datetime.datetime(1970, 1, 1)


def text_of(schema: Schema | None, value: Any, *, embedded: bool = False) -> str:
    """`Values.convertToString` of a value in the base type of its schema."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return _quoted(value) if embedded else value
        case float():
            return float_text(value) if schema is not None and schema.type is Type.FLOAT32 else double_text(value)
        case int():
            return str(value) if schema is None else _number_text(schema, value)
        case datetime.datetime():
            # A java.util.Date without a schema.
            return _instant_text((value - _EPOCH) // datetime.timedelta(milliseconds=1))
        case bytes():
            if schema is not None and schema.name == schemas.DECIMAL:
                return decimal_text(decimal_of(value, schema))
            encoded = binascii.b2a_base64(value, newline=False).decode()
            return f'"{encoded}"' if embedded else encoded
        case dict():
            members = (
                ((name, None, member) for name, member in value.items())
                if schema is None
                else ((field.name, field.schema, value.get(field.name)) for field in schema.fields)
            )
            return "{" + ",".join(f"{_quoted(name)}:{_member_text(its, member)}" for name, its, member in members) + "}"
        case list() if schema is not None and schema.type is Type.MAP:
            pairs = (
                f"{text_of(schema.key_schema, k, embedded=True)}:{text_of(schema.value_schema, v, embedded=True)}"
                for k, v in value
            )
            return "{" + ",".join(pairs) + "}"
    inner = None if schema is None else schema.value_schema
    return "[" + ",".join(text_of(inner, member, embedded=True) for member in value) + "]"


def _member_text(schema: Schema | None, value: Any) -> str:
    """A struct gives the default of a field that is null."""
    if value is None and schema is not None:
        value = schema.default
    return text_of(schema, value, embedded=True)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _number_text(schema: Schema, number: int) -> str:
    if schema.name not in (schemas.DATE, schemas.TIME, schemas.TIMESTAMP):
        return str(number)
    return _instant_text(number * MILLISECONDS_PER_DAY if schema.name == schemas.DATE else number)


def _instant_text(ms: int) -> str:
    moment = _EPOCH + datetime.timedelta(milliseconds=ms)
    date, time = f"{moment:%Y-%m-%d}", f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    if ms < MILLISECONDS_PER_DAY:
        return time
    return date if ms % MILLISECONDS_PER_DAY == 0 else f"{date}T{time}"

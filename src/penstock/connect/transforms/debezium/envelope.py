"""Change events of Debezium: the envelope with `before`, `after`, `source`, `op` and `ts_ms`."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.connect.data.records import Column
from penstock.connect.data.schema import Schema, Type
from penstock.connect.transforms.java.values import ILLEGAL_ARGUMENT
from penstock.connect.transforms.parts import RecordError, members, read_field

_ENVELOPE_SUFFIX: Final = ".Envelope"


def is_envelope(column: Column) -> bool:
    """Other records, such as heartbeats, pass unchanged."""
    schema = column.schema
    return schema is not None and schema.name is not None and schema.name.endswith(_ENVELOPE_SUFFIX)


def state(column: Column, name: str) -> Column:
    """`before` or `after` of all events."""
    assert column.schema is not None
    field = column.schema.field(name)
    if field is None:
        raise RecordError(f"Unknown field: {name}", ILLEGAL_ARGUMENT)
    return Column(field.schema, members(column.values)[name])


def field_of_type(column: Column, name: str, kind: Type) -> pa.Array:
    """As `Struct.getString` and its siblings: of a struct, without defaults."""
    assert column.schema is not None
    field = column.schema.field(name)
    if field is None:
        raise RecordError(f"{name} is not a valid field name")
    if field.schema.type is not kind:
        raise RecordError(f"Field '{name}' is not of type {kind.name}")
    return members(column.values)[name]


def field_value(column: Column, name: str) -> Column:
    """As `Struct.get`: with the default where it is null."""
    assert column.schema is not None
    field = column.schema.field(name)
    if field is None:
        raise RecordError(f"{name} is not a valid field name")
    return Column(field.schema, read_field(field, members(column.values)[name], with_default=True))


def is_blank(texts: pa.Array) -> pa.Array:
    """Null, empty, or nothing but blanks."""
    return pc.or_kleene(texts.is_null(), pc.equal(pc.utf8_trim_whitespace(texts), "")).fill_null(True)


def optional(schema: Schema) -> Schema:
    return Schema(
        schema.type,
        is_optional=True,
        name=schema.name,
        version=schema.version,
        doc=schema.doc,
        parameters=schema.parameters,
        value_schema=schema.value_schema,
        key_schema=schema.key_schema,
        fields=schema.fields,
    )

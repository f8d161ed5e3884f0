"""Values of a group as an Arrow table for programs, and a table that a program made as values.

A table has a column for each field of the value (or a single column `value`, if it is no struct), and the pseudo
columns `_topic`, `_key`, `_timestamp` and `_row`. Dates, times, timestamps and decimals have Arrow's own types there.

Owns this form. It must not know what programs do.

Invariant: the schema of a result depends on the schema of its table and of the group, and never on the values, so that
groups of equal schema have results of equal schema.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Context, Decimal
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connect.data import schema as connect
from penstock.connect.data.records import RecordGroup
from penstock.connect.data.schema import DATE, DECIMAL, DECIMAL_SCALE, TIME, TIMESTAMP, Field, Schema, Type
from penstock.connect.transforms.parts import RecordError, map_column, members, struct_column

PSEUDO_COLUMNS: Final = ("_topic", "_key", "_timestamp", "_row")
_ROW: Final = "_row"
_DECIMALS: Final = Context(prec=76)


def to_table(group: RecordGroup) -> pa.Table:
    """Of values that are not null. `_row` is the index into the group. Raises RecordError."""
    columns = {}
    value = group.value
    if pa.types.is_struct(value.values.type):
        for name, values in members(value.values).items():
            field = None if value.schema is None else value.schema.field(name)
            columns[name] = _to_arrow(None if field is None else field.schema, values)
    else:
        columns["value"] = _to_arrow(value.schema, value.values)
    clash = next((name for name in columns if name in PSEUDO_COLUMNS), None)
    if clash is not None:
        raise RecordError(f"The value has a field {clash}, which is the name of a pseudo column; rename it before")
    columns["_topic"] = group.topic
    columns["_key"] = _to_arrow(group.key.schema, group.key.values)
    columns["_timestamp"] = group.timestamp.cast(pa.timestamp("ms"))
    columns[_ROW] = pa.array(np.arange(len(group), dtype=np.int64))
    # A struct without fields has no form in SQL.
    return pa.table({name: values for name, values in columns.items() if values.type != pa.struct([])})


def from_table(group: RecordGroup, table: pa.Table) -> RecordGroup:
    """`table` has a column `_row`, with indices into the group. Raises RecordError for types that Connect lacks."""
    if len(set(table.column_names)) != len(table.column_names):
        raise RecordError(f"Two columns have the same name: {', '.join(table.column_names)}")
    rows = _row_numbers(table, len(group))
    # Pseudo columns are left out unless the program gave them another name.
    columns = {name: _combined(table.column(name)) for name in table.column_names if name not in PSEUDO_COLUMNS}
    taken = group.take(rows)
    if group.value.schema is None:
        return taken.with_value(map_column({name: _plain(each) for name, each in columns.items()}, len(rows)))
    old = group.value.schema
    fields = [Field(name, _field_schema(old, name, each.type)) for name, each in columns.items()]
    schema = Schema(Type.STRUCT, name=old.name if old.type is Type.STRUCT else None, fields=tuple(fields))
    converted = {field.name: _from_arrow(field.schema, columns[field.name]) for field in fields}
    return taken.with_value(struct_column(schema, converted, len(rows)))


def _row_numbers(table: pa.Table, length: int) -> pa.Array:
    column = table.column(_ROW)
    if not pa.types.is_integer(column.type) or column.null_count:
        raise RecordError("The column _row does not hold the numbers that it had")
    rows = _combined(column).cast(pa.int64())
    bounds = pc.min_max(rows).as_py()
    if len(rows) and not 0 <= bounds["min"] <= bounds["max"] < length:
        raise RecordError("The column _row does not hold the numbers that it had")
    return rows


def _combined(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else pa.concat_arrays(combined.chunks)


# With a schema


def _to_arrow(schema: Schema | None, values: pa.Array) -> pa.Array:
    if schema is None:
        return values
    match schema.name:
        case connect.TIMESTAMP:
            return values.cast(pa.timestamp("ms"))
        case connect.DATE:
            return values.cast(pa.date32())
        case connect.TIME:
            return values.cast(pa.time32("ms"))
        case connect.DECIMAL:
            scale = int(schema.parameter(DECIMAL_SCALE) or 0)
            numbers = [None if raw is None else _decimal(raw, scale) for raw in values.to_pylist()]
            try:
                return pa.array(numbers, pa.decimal128(38, scale))
            except pa.ArrowInvalid:
                raise RecordError("A decimal has more than 38 digits, which a table cannot hold") from None
    return values


def _decimal(raw: bytes, scale: int) -> Decimal:
    return Decimal(int.from_bytes(raw, "big", signed=True)).scaleb(-scale, _DECIMALS)


def _field_schema(old: Schema, name: str, arrow_type: pa.DataType) -> Schema:
    """A column that still has its name and type keeps its schema, but may be null now."""
    known = old.field(name)
    if known is not None and _to_arrow(known.schema, pa.nulls(0, known.schema.arrow_type)).type == arrow_type:
        return replace(known.schema, is_optional=True, default=None)
    if known is not None and known.schema.name in (TIMESTAMP, DATE, TIME) and pa.types.is_temporal(arrow_type):
        inferred = _schema(arrow_type)
        return known.schema.optional() if inferred.name == known.schema.name else inferred
    return _schema(arrow_type)


def _schema(arrow_type: pa.DataType) -> Schema:
    for kind in (connect.INT8, connect.INT16, connect.INT32, connect.INT64, connect.FLOAT32, connect.FLOAT64,
                 connect.BOOLEAN, connect.STRING, connect.BYTES):  # fmt: skip
        if kind.arrow_type == arrow_type:
            return kind.optional()
    match arrow_type:
        case _ if pa.types.is_timestamp(arrow_type):
            return connect.timestamp().optional()
        case _ if pa.types.is_date(arrow_type):
            return connect.date().optional()
        case _ if pa.types.is_time(arrow_type):
            return connect.time().optional()
        case _ if pa.types.is_decimal(arrow_type):
            return connect.decimal(arrow_type.scale).optional()
        case _ if pa.types.is_unsigned_integer(arrow_type):
            wider = {8: connect.INT16, 16: connect.INT32, 32: connect.INT64}
            return (wider[arrow_type.bit_width] if arrow_type.bit_width in wider else connect.decimal(0)).optional()
        case _ if pa.types.is_large_string(arrow_type) or pa.types.is_null(arrow_type):
            return connect.STRING.optional()
        case _ if pa.types.is_large_binary(arrow_type):
            return connect.BYTES.optional()
        case _ if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
            return Schema(Type.ARRAY, is_optional=True, value_schema=_schema(arrow_type.value_type))
        case _ if pa.types.is_map(arrow_type):
            key = replace(_schema(arrow_type.key_type), is_optional=False)
            return Schema(Type.MAP, is_optional=True, key_schema=key, value_schema=_schema(arrow_type.item_type))
        case _ if pa.types.is_struct(arrow_type):
            fields = tuple(Field(field.name, _schema(field.type)) for field in arrow_type)
            return Schema(Type.STRUCT, is_optional=True, fields=fields)
    raise RecordError(
        f"A column has the type {arrow_type}, which has no counterpart in Connect; cast it in the program"
    )


def _from_arrow(schema: Schema, values: pa.Array) -> pa.Array:
    if schema.name == DECIMAL and not pa.types.is_binary(values.type):
        scale = int(schema.parameter(DECIMAL_SCALE) or 0)
        return pa.array([None if each is None else _unscaled(each, scale) for each in values.to_pylist()], pa.binary())
    if schema.name == TIMESTAMP and pa.types.is_timestamp(values.type):
        return pc.cast(values, pa.timestamp("ms"), safe=False).cast(pa.int64())
    if schema.name == TIME and pa.types.is_time(values.type):
        return pc.cast(values, pa.time32("ms"), safe=False).cast(pa.int32())
    if schema.type is Type.STRUCT and _has_logical(schema):
        inside = members(values)
        children = [_from_arrow(field.schema, inside[field.name]) for field in schema.fields]
        mask = values.is_null() if values.null_count else None
        return pa.StructArray.from_arrays(children, fields=list(schema.arrow_type), mask=mask)
    if values.type == schema.arrow_type:
        return values
    try:
        return values.cast(schema.arrow_type)
    except pa.ArrowInvalid as error:
        raise RecordError(str(error)) from None
    except pa.ArrowNotImplementedError:
        return pa.array(values.to_pylist(), schema.arrow_type)


def _has_logical(schema: Schema) -> bool:
    return any(field.schema.name in (DECIMAL, TIME, TIMESTAMP) or _has_logical(field.schema) for field in schema.fields)


def _unscaled(number: Decimal | int, scale: int) -> bytes:
    unscaled = int(Decimal(number).scaleb(scale, _DECIMALS))
    return unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)


# Without a schema


def _plain(values: pa.Array) -> pa.Array:
    """As JSON knows values: numbers, texts, booleans, and no dates. Raises RecordError."""
    plain = _plain_type(values.type)
    try:
        # Decimals and timestamps lose digits; a number that does not fit is a mistake.
        is_safe = pa.types.is_integer(values.type)
        return values if values.type == plain else values.cast(plain, safe=is_safe)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise RecordError(str(error)) from None


def _plain_type(arrow_type: pa.DataType) -> pa.DataType:
    match arrow_type:
        case _ if pa.types.is_decimal(arrow_type):
            return pa.int64() if arrow_type.scale == 0 else pa.float64()
        case _ if pa.types.is_timestamp(arrow_type):
            return pa.timestamp("ms")
        case _ if pa.types.is_temporal(arrow_type) or pa.types.is_large_string(arrow_type):
            return pa.string()
        case _ if pa.types.is_integer(arrow_type):
            return pa.int64()
        case _ if pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type):
            return pa.list_(_plain_type(arrow_type.value_type))
        case _ if pa.types.is_map(arrow_type):
            return pa.map_(_plain_type(arrow_type.key_type), _plain_type(arrow_type.item_type))
        case _ if pa.types.is_struct(arrow_type):
            return pa.struct([(field.name, _plain_type(field.type)) for field in arrow_type])
        case _ if pa.types.is_union(arrow_type) or pa.types.is_null(arrow_type):
            return arrow_type
    return _schema(arrow_type).arrow_type

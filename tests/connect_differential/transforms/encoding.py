"""Records of a group as the JSON that java/TransformDriver.java reads and writes."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.connect.data.records import Column, RecordGroup
from penstock.connect.data.schema import Schema, Type
from penstock.connect.transforms.java.values import class_name


def encode_group(group: RecordGroup) -> list[tuple[int, dict[str, Any]]]:
    """Pairs of row number and record, without the offset, which no transform changes."""
    keys, values = encode_column(group.key), encode_column(group.value)
    headers = [(name, encode_schema(column.schema), encode_column(column)) for name, column in group.headers]
    return [
        (
            row,
            {
                "topic": group.topic[index].as_py(),
                "partition": group.partition[index].as_py(),
                "timestamp": group.timestamp[index].as_py(),
                "key_schema": encode_schema(group.key.schema),
                "key": keys[index],
                "value_schema": encode_schema(group.value.schema),
                "value": values[index],
                "headers": [
                    {"name": name, "schema": schema, "value": column[index]} for name, schema, column in headers
                ],
            },
        )
        for index, row in enumerate(group.rows.to_pylist())
    ]


def encode_column(column: Column) -> list[Any]:
    column.values.validate(full=True)
    if column.schema is not None:
        assert column.values.type == column.schema.arrow_type, (column.values.type, column.schema.arrow_type)
        schema = column.schema
        return [encode_value(schema, value) for value in column.values.to_pylist()]
    return [encode_plain(column.values.type, value) for value in _plain_values(column.values)]


def _plain_values(values: pa.Array) -> list[Any]:
    """As `to_pylist`, with a java.util.Date as its milliseconds: Python's dates end in the year 9999."""
    if pa.types.is_timestamp(values.type):
        milliseconds: list[Any] = values.cast(pa.int64()).to_pylist()
        return milliseconds
    if pa.types.is_struct(values.type) and values.type.num_fields:
        columns = [_plain_values(child) for child in values.flatten()]
        names = [field.name for field in values.type]
        rows = [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        return [row if valid else None for row, valid in zip(rows, values.is_valid().to_pylist(), strict=True)]
    plain: list[Any] = values.to_pylist()
    return plain


def encode_schema(schema: Schema | None) -> Any:
    if schema is None:
        return None
    return {
        "type": schema.type.name,
        "optional": schema.is_optional,
        "name": schema.name,
        "version": schema.version,
        "doc": schema.doc,
        "parameters": dict(schema.parameters),
        "default": None if schema.default is None else encode_value(schema, schema.default),
        "fields": [{"name": field.name, "schema": encode_schema(field.schema)} for field in schema.fields],
        "key": encode_schema(schema.key_schema),
        "value": encode_schema(schema.value_schema),
    }


def encode_value(schema: Schema, value: Any) -> Any:
    if value is None:
        return None
    match schema.type:
        case Type.FLOAT32 | Type.FLOAT64:
            return _bits(value, is_single=schema.type is Type.FLOAT32)
        case Type.BYTES:
            return b64encode(value).decode()
        case Type.ARRAY:
            element = schema.value_schema
            return [None if element is None else encode_value(element, each) for each in value]
        case Type.MAP:
            key, member = schema.key_schema, schema.value_schema
            pairs = value.items() if isinstance(value, dict) else value
            # Only maps with at most one entry are generated, so their order does not matter.
            return [
                [
                    None if key is None else encode_value(key, k),
                    None if member is None else encode_value(member, v),
                ]
                for k, v in pairs
            ]
        case Type.STRUCT:
            return {field.name: encode_value(field.schema, value.get(field.name)) for field in schema.fields}
    return value


def encode_plain(arrow_type: pa.DataType, value: Any) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(arrow_type):
        entries = {field.name: encode_plain(field.type, value[field.name]) for field in arrow_type}
        return {"java": "Map", "value": entries}
    if pa.types.is_list(arrow_type):
        return {"java": "List", "value": [encode_plain(arrow_type.value_type, each) for each in value]}
    if pa.types.is_timestamp(arrow_type):
        return {"java": "Date", "value": value}
    if pa.types.is_floating(arrow_type):
        value = _bits(value, is_single=arrow_type == pa.float32())
    elif pa.types.is_binary(arrow_type):
        return {"java": "bytes", "value": b64encode(value).decode()}
    return {"java": class_name(None, arrow_type).rpartition(".")[2], "value": value}


def _bits(number: float, *, is_single: bool) -> int:
    """Not as text: Java prints more digits than needed before version 19."""
    wide = np.float64(np.float32(number) if is_single else number)
    return int((np.float64("nan") if np.isnan(wide) else wide).view(np.int64))

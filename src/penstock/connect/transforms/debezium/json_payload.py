"""A text of JSON as a struct, with the schema that Debezium infers from it (`table.expand.json.payload`).

Objects become optional structs named by their path. Members that are null or an empty list are left out, unless nulls
are kept as optional bytes. Owns this inference. It must not know events.
"""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.connect.data.schema import BOOLEAN, BYTES, FLOAT64, INT32, INT64, STRING, Field, Schema, Type


class NotExpandableError(Exception):
    """The text stays a text: it is no object, or its lists mix types."""


def expand(text: str, name: str, *, keeps_null: bool) -> tuple[Schema, dict[str, Any]]:
    """Raises NotExpandableError."""
    if not text.startswith("{"):
        raise NotExpandableError("the payload is not a JSON object")
    try:
        document = msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise NotExpandableError(str(error)) from None
    schema = _schema(name, document, keeps_null=keeps_null)
    assert schema is not None
    return schema, _value(schema, document)


def _schema(name: str | None, node: Any, *, keeps_null: bool) -> Schema | None:
    match node:
        case None:
            return BYTES.optional() if keeps_null else None
        case str():
            return STRING.optional()
        case bool():
            return BOOLEAN.optional()
        case int():
            if -(2**31) <= node < 2**31:
                return INT32.optional()
            if not -(2**63) <= node < 2**63:
                raise NotExpandableError(f"the number {node} is too large")
            return INT64.optional()
        case float():
            return FLOAT64.optional()
        case list():
            return Schema(Type.ARRAY, is_optional=True, value_schema=_element(name, node, keeps_null)) if node else None
    fields = []
    for key, member in node.items():
        schema = _schema(f"{name}.{key}" if name else key, member, keeps_null=keeps_null)
        if schema is not None:
            fields.append(Field(key, schema))
    return Schema(Type.STRUCT, is_optional=True, name=name, fields=tuple(fields))


def _element(name: str | None, elements: list[Any], keeps_null: bool) -> Schema:
    """All elements have one type. Objects may have different members, which are merged."""
    present = [element for element in elements if element is not None]
    if not present:
        raise NotExpandableError("a list holds nothing but null")
    if isinstance(present[0], dict):
        if not all(isinstance(element, dict) for element in present):
            raise NotExpandableError("a list mixes types")
        merged: dict[str, Field] = {}
        first = None
        for element in present:
            schema = _schema(name, element, keeps_null=keeps_null)
            assert schema is not None
            first = first or schema
            for field in schema.fields:
                known = merged.get(field.name)
                if known is None or (known.schema.type is Type.BYTES and field.schema.type is not Type.BYTES):
                    merged[field.name] = field
        # The merged schema is required, as Debezium's is; a single one keeps what it is.
        distinct = {_schema(name, element, keeps_null=keeps_null) for element in present}
        assert first is not None
        if len(distinct) == 1:
            return first
        return Schema(Type.STRUCT, name=first.name, fields=tuple(merged.values()))
    schemas = {_schema(None, element, keeps_null=keeps_null) for element in present}
    if len(schemas) != 1 and not isinstance(present[0], list):
        raise NotExpandableError("a list mixes types")
    first = _schema(None, present[0], keeps_null=keeps_null)
    if first is None:
        raise NotExpandableError("a list holds empty lists")
    return first


def _value(schema: Schema, node: Any) -> Any:
    if node is None:
        return None
    if schema.type is Type.STRUCT:
        return {field.name: _value(field.schema, node.get(field.name)) for field in schema.fields}
    if schema.type is Type.ARRAY:
        assert schema.value_schema is not None
        return [_value(schema.value_schema, element) for element in node]
    return node

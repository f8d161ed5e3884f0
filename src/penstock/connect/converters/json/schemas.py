"""Connect's schemas as JSON, as Kafka's JsonConverter writes them into each record.

Owns the JSON form of schemas. It must not know values, other than defaults.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from penstock.connect.converters.json.reading import DataError, validate, value_of
from penstock.connect.data.records import CONNECT_ERRORS
from penstock.connect.data.schema import Field, Schema, Type

SCHEMA_BUILDER_EXCEPTION: Final = f"{CONNECT_ERRORS}.SchemaBuilderException"
_TYPES: Final = {each.value: each for each in Type}
_INT_BITS: Final = 32


def schema_from_json(node: Any, *, replace_nulls: bool) -> Schema | None:
    """None for null. Raises DataError."""
    if node is None:
        return None
    members = node if isinstance(node, dict) else {}
    name = members.get("type")
    if not isinstance(name, str):
        raise DataError("Schema must contain 'type' field")
    if name not in _TYPES:
        raise DataError(f"Unknown schema type: {name}")
    kind = _TYPES[name]
    key_schema = value_schema = None
    fields: tuple[Field, ...] = ()
    match kind:
        case Type.ARRAY:
            if members.get("items") is None:
                raise DataError("Array schema did not specify the element type")
            value_schema = schema_from_json(members["items"], replace_nulls=replace_nulls)
        case Type.MAP:
            key_schema, value_schema = _map_schemas(members, replace_nulls=replace_nulls)
        case Type.STRUCT:
            fields = _fields(members, replace_nulls=replace_nulls)
    schema = Schema(
        kind,
        is_optional=members.get("optional") is True,
        name=_text(members.get("name")),
        version=_version(members.get("version")),
        doc=_text(members.get("doc")),
        parameters=_parameters(members.get("parameters")),
        fields=fields,
        key_schema=key_schema,
        value_schema=value_schema,
    )
    return _with_default(schema, members, replace_nulls=replace_nulls) if "default" in members else schema


def _map_schemas(members: dict[str, Any], *, replace_nulls: bool) -> tuple[Schema, Schema]:
    if "keys" not in members:
        raise DataError("Map schema did not specify the key type")
    if "values" not in members:
        raise DataError("Map schema did not specify the value type")
    key_schema = schema_from_json(members["keys"], replace_nulls=replace_nulls)
    value_schema = schema_from_json(members["values"], replace_nulls=replace_nulls)
    if key_schema is None:
        raise DataError("keySchema cannot be null.", SCHEMA_BUILDER_EXCEPTION)
    if value_schema is None:
        raise DataError("valueSchema cannot be null.", SCHEMA_BUILDER_EXCEPTION)
    return key_schema, value_schema


def _fields(members: dict[str, Any], *, replace_nulls: bool) -> tuple[Field, ...]:
    declared = members.get("fields")
    if not isinstance(declared, list):
        raise DataError('Struct schema\'s "fields" argument is not an array.')
    fields: dict[str, Field] = {}
    for each in declared:
        name = each.get("field") if isinstance(each, dict) else None
        if not isinstance(name, str):
            raise DataError("Struct schema's field name not specified properly")
        schema = schema_from_json(each, replace_nulls=replace_nulls)
        assert schema is not None
        if not name:
            raise DataError("fieldName cannot be null.", SCHEMA_BUILDER_EXCEPTION)
        if name in fields:
            raise DataError(f"Cannot create field because of field name duplication {name}", SCHEMA_BUILDER_EXCEPTION)
        fields[name] = Field(name, schema)
    return tuple(fields.values())


def _with_default(schema: Schema, members: dict[str, Any], *, replace_nulls: bool) -> Schema:
    default = value_of(schema, members["default"], replace_nulls=replace_nulls)
    if schema.type is Type.STRUCT and default is not None:
        # Kafka compares the schema of the default with one that is not complete yet.
        raise DataError("Invalid default value", SCHEMA_BUILDER_EXCEPTION)
    try:
        validate(schema, default, "value")
    except DataError as error:
        raise DataError("Invalid default value", SCHEMA_BUILDER_EXCEPTION) from error
    return Schema(
        schema.type,
        schema.is_optional,
        schema.name,
        schema.version,
        schema.doc,
        schema.parameters,
        default,
        schema.fields,
        schema.key_schema,
        schema.value_schema,
    )


def _text(node: Any) -> str | None:
    return node if isinstance(node, str) else None


def _version(node: Any) -> int | None:
    if isinstance(node, bool) or not isinstance(node, int):
        return None
    half = 1 << (_INT_BITS - 1)
    return ((node + half) & ((1 << _INT_BITS) - 1)) - half


def _parameters(node: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(node, dict):
        return ()
    if not all(isinstance(value, str) for value in node.values()):
        raise DataError("Schema parameters must have string values.")
    return tuple(node.items())


def schema_to_json(schema: Schema | None, default_text: Callable[[Schema, pa.Array], str]) -> str:
    """`default_text` writes a default: it takes a schema and an Arrow array with one value, and returns its JSON."""
    if schema is None:
        return "null"
    return "{" + ",".join(_members(schema, default_text)) + "}"


def _members(
    schema: Schema, default_text: Callable[[Schema, pa.Array], str], field_name: str | None = None
) -> list[str]:
    from penstock.connect.converters.json.writing import quoted

    members = [f'"type":"{schema.type.value}"']
    if schema.type is Type.ARRAY:
        members.append(f'"items":{schema_to_json(schema.value_schema, default_text)}')
    elif schema.type is Type.MAP:
        members.append(f'"keys":{schema_to_json(schema.key_schema, default_text)}')
        members.append(f'"values":{schema_to_json(schema.value_schema, default_text)}')
    elif schema.type is Type.STRUCT:
        fields = ("{" + ",".join(_members(field.schema, default_text, field.name)) + "}" for field in schema.fields)
        members.append(f'"fields":[{",".join(fields)}]')
    members.append(f'"optional":{"true" if schema.is_optional else "false"}')
    if schema.name is not None:
        members.append(f'"name":{quoted(schema.name)}')
    if schema.version is not None:
        members.append(f'"version":{schema.version}')
    if schema.doc is not None:
        members.append(f'"doc":{quoted(schema.doc)}')
    if schema.parameters:
        pairs = ",".join(f"{quoted(name)}:{quoted(value)}" for name, value in schema.parameters)
        members.append('"parameters":{' + pairs + "}")
    if schema.default is not None:
        members.append(f'"default":{default_text(schema, pa.array([schema.default], schema.arrow_type))}')
    if field_name is not None:
        members.append(f'"field":{quoted(field_name)}')
    return members

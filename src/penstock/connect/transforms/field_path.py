"""Paths to fields: a single name (V1), or names with dots and backticks (V2, KIP-821)."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.connect.config.definition import ConfigException, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import one_of
from penstock.connect.data.records import Column
from penstock.connect.data.schema import Field, Schema, Type
from penstock.connect.transforms.java.values import class_name
from penstock.connect.transforms.parts import RecordError, Rows, members, read_field, require_struct

FIELD_SYNTAX_VERSION: Final = ConfigKey(
    "field.syntax.version",
    ConfigType.STRING,
    "V1",
    Importance.HIGH,
    "How fields are named. With V1, a name is a field at the top. With V2, dots lead into nested fields, and a name "
    "that holds dots itself stands between backticks.",
    one_of("V1", "V2", ignore_case=True),
)
_PURPOSE: Final = "nested field access"


def parse_path(text: str, version: str) -> tuple[str, ...]:
    """The names on the way to the field. Raises ConfigException."""
    if version.upper() == "V1":
        return (text,)
    steps = []
    position = 0
    while position < len(text):
        if text[position] == "`":
            step, position = _quoted_step(text, position)
        else:
            end = text.find(".", position)
            end = len(text) if end < 0 else end
            step, position = text[position:end], end + 1
        steps.append(step)
    if text.endswith("."):
        steps.append("")
    return tuple(steps)


def _quoted_step(text: str, opening: int) -> tuple[str, int]:
    """The name between backticks, and the position behind it and its dot.

    A backtick closes the name only before a dot or at the end; a backslash keeps it from closing.
    """
    step, start, position = "", opening + 1, opening + 1
    while True:
        position = text.find("`", position)
        is_escaped = position > 0 and text[position - 1] == "\\"
        is_last = position == len(text) - 1
        if position < 0 or (is_last and is_escaped):
            raise ConfigException(
                f"Incomplete backtick pair in path: [{text}], consider adding a backslash before backtick at position "
                f"{opening} to escape it"
            )
        if is_last:
            return step + text[start:position], position + 1
        if text[position + 1] == "." and is_escaped:
            step += text[start : position - 1] + "`"
            start = position + 1
        elif text[position + 1] == ".":
            return step + text[start:position], position + 2
        position += 1


def field_at(schema: Schema, steps: tuple[str, ...]) -> Field | None:
    """Raises RecordError where the path leads through something else than a struct."""
    found: Field | None = None
    for step in steps:
        if schema.type is not Type.STRUCT:
            raise RecordError("Cannot look up fields on non-struct type")
        found = schema.field(step)
        if found is None:
            return None
        schema = found.schema
    return found


def values_at(column: Column, steps: tuple[str, ...], *, with_default: bool) -> pa.Array:
    """Of a path that the schema has; defaults of structs on the way always apply."""
    values = column.values
    schema = column.schema
    for index, step in enumerate(steps):
        assert schema is not None
        if index:
            require_struct(Column(schema, values), _PURPOSE)
        field = schema.field(step)
        assert field is not None
        is_last = index == len(steps) - 1
        values = read_field(field, members(values)[step], with_default=with_default or not is_last)
        if index:
            values = _null_where_parent_is(values, column.values)
        column = Column(field.schema, values)
        schema = field.schema
    return values


def _null_where_parent_is(values: pa.Array, parent: pa.Array) -> pa.Array:
    """A default must not appear in a struct that is null itself."""
    if not parent.null_count:
        return values
    return pc.if_else(parent.is_valid(), values, pa.nulls(len(values), values.type))


def map_values_at(rows: Rows, values: pa.Array, steps: tuple[str, ...]) -> pa.Array:
    """Of maps without a schema; null where a key is missing. Rows fail where the path leads through something else."""
    for step in steps:
        if not pa.types.is_struct(values.type):
            found_class = class_name(None, values.type)
            why = f"Only Map objects supported in absence of schema for [{_PURPOSE}], found: {found_class}"
            rows.fail(values.is_valid().to_numpy(zero_copy_only=False), why)
            return pa.nulls(len(values))
        found = members(values).get(step)
        if found is None:
            return pa.nulls(len(values))
        values = found
    return values

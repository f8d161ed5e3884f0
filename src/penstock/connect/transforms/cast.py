"""Cast: fields, or whole keys or values, to another primitive type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from penstock.connect.config.definition import ConfigDef, ConfigException, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import invalid, parse
from penstock.connect.data.records import Column, RecordGroup, StepResult
from penstock.connect.data.schema import DATE, DECIMAL, TIME, TIMESTAMP, Field, Schema, Type
from penstock.connect.transforms.java.casting import OUTPUT_TYPES, cast, type_names
from penstock.connect.transforms.java.values import ILLEGAL_ARGUMENT, SCHEMA_BUILDER_EXCEPTION, hash_order
from penstock.connect.transforms.parts import (
    PartTransform,
    RecordError,
    Rows,
    check_field,
    fields_of,
    map_column,
    members,
    read_field,
    require_map,
    require_struct,
    struct_column,
    struct_schema,
)
from penstock.connect.transforms.properties import REPLACE_NULL_WITH_DEFAULT, list_text

_PURPOSE: Final = "cast types"
_TYPES: Final = {each.name: each for each in Type}


def _check_spec(_name: str, spec: Any) -> None:
    if not spec:
        raise ConfigException("Must specify at least one field to cast.", _name)
    _parse_spec(spec)


def _parse_spec(spec: Sequence[str]) -> dict[str | None, Type]:
    """The field None stands for the whole key or value."""
    casts: dict[str | None, Type] = {}
    for mapping in spec:
        parts = mapping.rstrip(":").split(":")
        if len(parts) > 2:
            raise invalid("renames", list_text(list(spec)), f"Invalid rename mapping: {mapping}")
        name = parts[-1].strip()
        target = _TYPES.get(name.upper())
        if target is None:
            # Kafka takes the exception for the value, and the message for the name of the property.
            unknown = f"No enum constant org.apache.kafka.connect.data.Schema.Type.{name.upper()}"
            raise invalid(f"Invalid type found in casting spec: {name}", f"{ILLEGAL_ARGUMENT}: {unknown}")
        if target not in OUTPUT_TYPES:
            raise ConfigException(
                f"Cast transformation does not support casting to {target.name}; "
                f"supported types are {type_names(OUTPUT_TYPES)}",
                "spec",
            )
        casts[parts[0].strip() if len(parts) == 2 else None] = target
    if None in casts and len(spec) > 1:
        raise ConfigException(
            "Cast transformations that specify a type to cast the entire value to may only specify a single cast in "
            "their spec",
            "spec",
        )
    return casts


class Cast(PartTransform):
    definition = ConfigDef(
        (
            ConfigKey(
                "spec",
                ConfigType.LIST,
                importance=Importance.HIGH,
                doc="The casts, as a list of field:type, or a single type for the whole key or value. The types are "
                "int8, int16, int32, int64, float32, float64, boolean and string. Bytes can only be cast to string.",
                validator=_check_spec,
            ),
            REPLACE_NULL_WITH_DEFAULT,
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        values = parse(self.definition, config)
        casts = _parse_spec(values["spec"])
        self._whole = casts.get(None)
        # Fields are cast in this order, so it decides which of two bad fields is reported.
        self._casts = {name: casts[name] for name in hash_order(name for name in casts if name is not None)}
        self._with_default: bool = values["replace.null.with.default"]

    def apply_present(self, group: RecordGroup, column: Column) -> StepResult:
        rows = Rows(group)
        if self._whole is not None:
            changed = self._cast_whole(rows, column, self._whole)
        elif column.schema is None:
            changed = self._cast_map(rows, column)
        else:
            changed = self._cast_struct(rows, column)
        return rows.result(self.with_column(group, changed))

    def _cast_whole(self, rows: Rows, column: Column, target: Type) -> Column:
        schema = column.schema
        if schema is not None:
            default = _cast_default(schema, target)
            if default is not None and schema.name in (DECIMAL, DATE, TIME, TIMESTAMP):
                # The schema keeps its name, which asks for another Java class than the default now has.
                raise RecordError("Invalid default value", SCHEMA_BUILDER_EXCEPTION)
            changed = replace(schema, type=target, default=default, fields=(), key_schema=None, value_schema=None)
            return Column(changed, _cast(rows, column.values, schema, target))
        return Column(None, _cast(rows, column.values, None, target))

    def _cast_map(self, rows: Rows, column: Column) -> Column:
        require_map(column, _PURPOSE)
        columns = members(column.values)
        length = len(column.values)
        for name, target in self._casts.items():
            columns[name] = _cast(rows, columns[name], None, target) if name in columns else pa.nulls(length)
        return map_column(columns, length)

    def _cast_struct(self, rows: Rows, column: Column) -> Column:
        assert column.schema is not None
        fields = [
            Field(field.name, _cast_field_schema(field.schema, self._casts[field.name]))
            if field.name in self._casts
            else field
            for field in fields_of(column.schema)
        ]
        schema = replace(
            struct_schema(column.schema, fields),
            is_optional=column.schema.is_optional,
            default=_cast_default(column.schema, Type.STRUCT),
        )
        require_struct(column, _PURPOSE)
        columns = members(column.values)
        for old, new in zip(column.schema.fields, fields, strict=True):
            values = read_field(old, columns[old.name], with_default=self._with_default)
            if old.name in self._casts:
                values = _cast(rows, values, old.schema, self._casts[old.name])
            columns[old.name] = check_field(rows, new, values)
        return struct_column(schema, columns, len(column.values))


def _cast(rows: Rows, values: pa.Array, schema: Schema | None, target: Type) -> pa.Array:
    casted = cast(values, schema, target)
    if casted.bad is not None:
        rows.fail_each(casted.bad, casted.message)
    return casted.values


def _cast_field_schema(schema: Schema, target: Type) -> Schema:
    return Schema(target, is_optional=schema.is_optional, default=_cast_default(schema, target))


def _cast_default(schema: Schema, target: Type) -> object:
    if schema.default is None:
        return None
    casted = cast(pa.array([schema.default], schema.arrow_type), schema, target)
    if casted.bad is not None:
        raise RecordError(casted.message(0))
    return casted.values[0].as_py()


class CastKey(Cast):
    part = "key"


class CastValue(Cast):
    part = "value"

"""Flatten: fields of nested structs and maps become fields at the top, named by their path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from penstock.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import parse
from penstock.connect.data.records import Column, RecordGroup, StepResult
from penstock.connect.data.schema import Field, Schema, Type
from penstock.connect.transforms.java.values import class_name, hash_order, schemaless_type
from penstock.connect.transforms.parts import (
    PartTransform,
    RecordError,
    all_failed,
    duplicate_field,
    map_column,
    members,
    merge,
    read_field,
    require_map,
    require_struct,
    split_by_patterns,
    struct_column,
    struct_schema,
)

_PURPOSE: Final = "flattening"


class Flatten(PartTransform):
    definition = ConfigDef(
        (
            ConfigKey(
                "delimiter",
                ConfigType.STRING,
                ".",
                Importance.MEDIUM,
                "What stands between the names of a path in the name of the new field.",
            ),
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        self._delimiter: str = parse(self.definition, config)["delimiter"]

    def apply_present(self, group: RecordGroup, column: Column) -> StepResult:
        if column.schema is None:
            require_map(column, _PURPOSE)
            # A map that is null is a null under its name, others become their entries: two shapes.
            return merge([self._flatten_maps(piece) for piece in split_by_patterns(group, _null_maps(column.values))])
        schema = require_struct(column, _PURPOSE)
        fields: list[Field] = []
        self._add_fields(fields, schema, "", is_optional=schema.is_optional, parent_default=schema.default)
        flat = struct_schema(schema, fields)
        columns: dict[str, pa.Array] = {}
        self._add_columns(columns, schema, column.values, "")
        return StepResult((self.with_column(group, struct_column(flat, columns, len(group))),))

    def _name(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name

    # With a schema

    def _add_fields(
        self, fields: list[Field], schema: Schema, prefix: str, *, is_optional: bool, parent_default: Any
    ) -> None:
        for field in schema.fields:
            name = self._name(prefix, field.name)
            optional = is_optional or field.schema.is_optional
            default = field.schema.default
            if default is None and parent_default is not None:
                default = parent_default.get(field.name)
            if field.schema.type is Type.STRUCT:
                self._add_fields(fields, field.schema, name, is_optional=optional, parent_default=default)
            elif field.schema.type is Type.MAP:
                raise RecordError(
                    f"Flatten transformation does not support MAP for record with schemas (for field {name})."
                )
            elif any(name == other.name for other in fields):
                raise duplicate_field(name)
            else:
                fields.append(Field(name, replace(field.schema, is_optional=optional, default=default)))

    def _add_columns(self, columns: dict[str, pa.Array], schema: Schema, values: pa.Array, prefix: str) -> None:
        nested = members(values)
        for field in schema.fields:
            name = self._name(prefix, field.name)
            if field.schema.type is Type.STRUCT:
                self._add_columns(columns, field.schema, nested[field.name], name)
                continue
            found = read_field(field, nested[field.name], with_default=True)
            if values.null_count:
                # Fields of a struct that is null stay null, whatever their default.
                found = pc.if_else(values.is_valid(), found, pa.nulls(len(found), found.type))
            columns[name] = found

    # Without a schema

    def _flatten_maps(self, group: RecordGroup) -> StepResult:
        columns: dict[str, pa.Array] = {}
        try:
            self._add_entries(columns, self.column(group).values, "")
        except RecordError as error:
            return all_failed(group, error)
        return StepResult((self.with_column(group, map_column(columns, len(group))),))

    def _add_entries(self, columns: dict[str, pa.Array], values: pa.Array, prefix: str) -> None:
        entries = members(values)
        for key in hash_order(entries):
            name, found = self._name(prefix, key), entries[key]
            if found.null_count == len(found):
                columns[name] = pa.nulls(len(found))
            elif pa.types.is_struct(found.type):
                self._add_entries(columns, found, name)
            elif schemaless_type(found.type) is None:
                raise RecordError(
                    f"Flatten transformation was passed a value of type class {class_name(None, found.type)} which is "
                    "not supported by Connect's data API"
                )
            else:
                columns[name] = found


def _null_maps(values: pa.Array) -> list[pa.Array]:
    """For each map inside, where it is null. A java.util.Date counts too, because only one that is not null fails."""
    masks = []
    for found in members(values).values():
        if pa.types.is_struct(found.type):
            masks += [found.is_null(), *_null_maps(found)]
        elif pa.types.is_timestamp(found.type):
            masks.append(found.is_null())
    return masks


class FlattenKey(Flatten):
    part = "key"


class FlattenValue(Flatten):
    part = "value"

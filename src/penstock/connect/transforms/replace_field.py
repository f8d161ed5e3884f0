"""ReplaceField: drops and renames fields."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from penstock.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import invalid, parse
from penstock.connect.data.records import Column, RecordGroup, StepResult
from penstock.connect.data.schema import Field, Type
from penstock.connect.transforms.java.values import class_name, hash_order
from penstock.connect.transforms.parts import (
    PartTransform,
    RecordError,
    Rows,
    check_field,
    map_column,
    members,
    read_field,
    require_map,
    require_struct,
    struct_column,
    struct_schema,
)
from penstock.connect.transforms.properties import REPLACE_NULL_WITH_DEFAULT, list_text, names

_PURPOSE: Final = "field replacement"
_STRUCT: Final = "org.apache.kafka.connect.data.Struct"


def _check_renames(_name: str, value: Any) -> None:
    _parse_renames(value)


def _parse_renames(mappings: Sequence[str]) -> dict[str, str]:
    renames = {}
    for mapping in mappings:
        parts = mapping.rstrip(":").split(":")
        if len(parts) != 2:
            raise invalid("renames", list_text(list(mappings)), f"Invalid rename mapping: {mapping}")
        renames[parts[0]] = parts[1]
    return renames


class ReplaceField(PartTransform):
    definition = ConfigDef(
        (
            ConfigKey(
                "exclude",
                ConfigType.LIST,
                (),
                Importance.MEDIUM,
                "Fields to drop. They are dropped even if `include` names them.",
                names(allow_empty=True),
            ),
            ConfigKey(
                "include",
                ConfigType.LIST,
                (),
                Importance.MEDIUM,
                "Fields to keep. If it is empty, all fields are kept that `exclude` does not name.",
                names(allow_empty=True),
            ),
            ConfigKey(
                "renames",
                ConfigType.LIST,
                (),
                Importance.MEDIUM,
                "Fields to rename, as a list of old:new.",
                _check_renames,
            ),
            REPLACE_NULL_WITH_DEFAULT,
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        values = parse(self.definition, config)
        self._exclude = frozenset(values["exclude"])
        self._include = frozenset(values["include"])
        self._renames = _parse_renames(values["renames"])
        self._original_names = {self._renames[old]: old for old in hash_order(self._renames)}
        self._with_default: bool = values["replace.null.with.default"]

    def apply_present(self, group: RecordGroup, column: Column) -> StepResult:
        if column.schema is None:
            require_map(column, _PURPOSE)
            old = members(column.values)
            columns = {self._renames.get(name, name): old[name] for name in hash_order(old) if self._keeps(name)}
            return StepResult((self.with_column(group, map_column(columns, len(group))),))
        return self._replace_in_structs(group, column)

    def _replace_in_structs(self, group: RecordGroup, column: Column) -> StepResult:
        old = require_struct(column, _PURPOSE)
        kept = [
            Field(self._renames.get(field.name, field.name), field.schema)
            for field in old.fields
            if self._keeps(field.name)
        ]
        schema = struct_schema(old, kept)
        rows = Rows(group)
        values = members(column.values)
        columns = {}
        for field in schema.fields:
            # Kafka Connect looks the old name up by the new one, which may lead to another field than expected.
            name = self._original_names.get(field.name, field.name)
            source = old.field(name)
            if source is None:
                return rows.all_fail(RecordError(f"{name} is not a valid field name"))
            found = read_field(source, values[name], with_default=self._with_default)
            columns[field.name] = self._check_class(rows, field, source, check_field(rows, field, found))
        return rows.result(self.with_column(group, struct_column(schema, columns, len(group))))

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    @staticmethod
    def _check_class(rows: Rows, field: Field, source: Field, values: pa.Array) -> pa.Array:
        old, new = source.schema, field.schema
        if old == new or class_name(old, old.arrow_type) == class_name(new, new.arrow_type) != _STRUCT:
            return values
        named = f' "{new.name}"' if new.name is not None else ""
        found = class_name(old, old.arrow_type)
        why = (
            f'Invalid Java object for schema{named} with type {new.type.name}: class {found} for field: "{field.name}"'
        )
        if old.type is Type.STRUCT is new.type:
            why = "Struct schemas do not match."
        rows.fail(values.is_valid().to_numpy(zero_copy_only=False), why)
        return pa.nulls(len(values), new.arrow_type)


class ReplaceFieldKey(ReplaceField):
    part = "key"


class ReplaceFieldValue(ReplaceField):
    part = "value"

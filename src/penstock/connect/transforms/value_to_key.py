"""ValueToKey: fields of the value become the key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from penstock.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import parse
from penstock.connect.data.records import Column, RecordGroup, StepResult
from penstock.connect.data.schema import Field
from penstock.connect.transforms.parts import (
    PartTransform,
    RecordError,
    Rows,
    check_field,
    map_column,
    members,
    null_found,
    read_field,
    require_map,
    require_struct,
    struct_column,
    struct_schema,
)
from penstock.connect.transforms.properties import REPLACE_NULL_WITH_DEFAULT, names

_PURPOSE: Final = "copying fields from value to key"


class ValueToKey(PartTransform):
    part = "value"
    definition = ConfigDef(
        (
            ConfigKey(
                "fields",
                ConfigType.LIST,
                importance=Importance.HIGH,
                doc="The fields of the value that make the new key.",
                validator=names(allow_empty=False),
            ),
            REPLACE_NULL_WITH_DEFAULT,
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        values = parse(self.definition, config)
        self._fields = tuple(dict.fromkeys(values["fields"]))
        self._with_default: bool = values["replace.null.with.default"]

    def apply_null(self, group: RecordGroup, column: Column) -> StepResult:
        raise null_found(column.schema, _PURPOSE)

    def apply_present(self, group: RecordGroup, column: Column) -> StepResult:
        rows = Rows(group)
        if column.schema is None:
            require_map(column, _PURPOSE)
            values = members(column.values)
            key = map_column({name: values.get(name, pa.nulls(len(group))) for name in self._fields}, len(group))
        else:
            key = self._struct_key(rows, column)
        return rows.result(group.with_key(key))

    def _struct_key(self, rows: Rows, column: Column) -> Column:
        schema = require_struct(column, _PURPOSE)
        fields: list[Field] = []
        for name in self._fields:
            field = schema.field(name)
            if field is None:
                raise RecordError(f"Field does not exist: {name}")
            fields.append(field)
        values = members(column.values)
        columns = {}
        for field in fields:
            found = read_field(field, values[field.name], with_default=self._with_default)
            columns[field.name] = check_field(rows, field, found)
        return struct_column(struct_schema(None, fields), columns, len(column.values))

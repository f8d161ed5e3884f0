"""ExtractField: a field takes the place of the whole key or value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

from penstock.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import parse
from penstock.connect.data.records import Column, RecordGroup, StepResult
from penstock.connect.data.schema import Field, Schema
from penstock.connect.transforms.field_path import (
    FIELD_SYNTAX_VERSION,
    field_at,
    map_values_at,
    parse_path,
    values_at,
)
from penstock.connect.transforms.java.values import ILLEGAL_ARGUMENT
from penstock.connect.transforms.parts import PartTransform, RecordError, Rows, require_map, require_struct
from penstock.connect.transforms.properties import REPLACE_NULL_WITH_DEFAULT

_PURPOSE: Final = "field extraction"


class ExtractField(PartTransform):
    definition = ConfigDef(
        (
            ConfigKey(
                "field", ConfigType.STRING, importance=Importance.MEDIUM, doc="The field that becomes the key or value."
            ),
            REPLACE_NULL_WITH_DEFAULT,
            FIELD_SYNTAX_VERSION,
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        values = parse(self.definition, config)
        self._path: str = values["field"]
        self._steps = parse_path(self._path, values["field.syntax.version"])
        self._with_default: bool = values["replace.null.with.default"]

    def apply_null(self, group: RecordGroup, column: Column) -> StepResult:
        if column.schema is None:
            return StepResult((self.with_column(group, Column(None, pa.nulls(len(group)))),))
        schema = self._field(column.schema).schema
        return StepResult((self.with_column(group, Column(schema, pa.nulls(len(group), schema.arrow_type))),))

    def apply_present(self, group: RecordGroup, column: Column) -> StepResult:
        rows = Rows(group)
        if column.schema is None:
            require_map(column, _PURPOSE)
            extracted = Column(None, map_values_at(rows, column.values, self._steps))
        else:
            schema = self._field(require_struct(column, _PURPOSE)).schema
            extracted = Column(schema, values_at(column, self._steps, with_default=self._with_default))
        return rows.result(self.with_column(group, extracted))

    def _field(self, schema: Schema) -> Field:
        field = field_at(schema, self._steps)
        if field is None:
            raise RecordError(f"Unknown field: {self._path}", ILLEGAL_ARGUMENT)
        return field


class ExtractFieldKey(ExtractField):
    part = "key"


class ExtractFieldValue(ExtractField):
    part = "value"

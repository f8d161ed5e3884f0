"""HoistField: wraps the key or value in a struct or map with a single field."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import parse
from penstock.connect.data.records import Column, RecordGroup, StepResult
from penstock.connect.data.schema import Field
from penstock.connect.transforms.parts import PartTransform, Rows, check_field, map_column, struct_column, struct_schema


class HoistField(PartTransform):
    definition = ConfigDef(
        (
            ConfigKey(
                "field",
                ConfigType.STRING,
                importance=Importance.MEDIUM,
                doc="The name of the only field of the new struct or map.",
            ),
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        self._field: str = parse(self.definition, config)["field"]

    def apply(self, group: RecordGroup) -> StepResult:
        # A null is wrapped as everything else is, so there is nothing to sort.
        return self.apply_present(group, self.column(group))

    def apply_present(self, group: RecordGroup, column: Column) -> StepResult:
        rows = Rows(group)
        columns = {self._field: column.values}
        if column.schema is None:
            hoisted = map_column(columns, len(group))
        else:
            field = Field(self._field, column.schema)
            check_field(rows, field, column.values)
            hoisted = struct_column(struct_schema(None, [field]), columns, len(group))
        return rows.result(self.with_column(group, hoisted))


class HoistFieldKey(HoistField):
    part = "key"


class HoistFieldValue(HoistField):
    part = "value"

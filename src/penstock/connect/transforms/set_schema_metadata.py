"""SetSchemaMetadata: gives the schema of the key or value another name, another version, or both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock.connect.config.definition import ConfigDef, ConfigException, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import parse
from penstock.connect.data.records import Column, RecordGroup, StepResult
from penstock.connect.data.schema import Schema
from penstock.connect.transforms.parts import (
    PartTransform,
    RecordError,
    Rows,
    check_field,
    fields_of,
    members,
    read_field,
    struct_column,
)
from penstock.connect.transforms.properties import REPLACE_NULL_WITH_DEFAULT


class SetSchemaMetadata(PartTransform):
    definition = ConfigDef(
        (
            ConfigKey("schema.name", ConfigType.STRING, None, Importance.HIGH, "The new name of the schema."),
            ConfigKey("schema.version", ConfigType.INT, None, Importance.HIGH, "The new version of the schema."),
            REPLACE_NULL_WITH_DEFAULT,
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        values = parse(self.definition, config)
        self._name: str | None = values["schema.name"]
        self._version: int | None = values["schema.version"]
        self._with_default: bool = values["replace.null.with.default"]
        if self._name is None and self._version is None:
            raise ConfigException("Neither schema name nor version configured")

    def apply_null(self, group: RecordGroup, column: Column) -> StepResult:
        if column.schema is None:
            return StepResult((group,))
        return StepResult((self.with_column(group, Column(self._updated(column.schema), column.values)),))

    def apply_present(self, group: RecordGroup, column: Column) -> StepResult:
        if column.schema is None:
            raise RecordError("Schema required for [updating schema metadata]")
        schema = self._updated(column.schema)
        rows = Rows(group)
        columns = members(column.values)
        for field in schema.fields:
            values = read_field(field, columns[field.name], with_default=self._with_default)
            columns[field.name] = check_field(rows, field, values)
        return rows.result(self.with_column(group, struct_column(schema, columns, len(group))))

    def _updated(self, schema: Schema) -> Schema:
        """Kafka Connect does this to structs only."""
        return replace(
            schema,
            fields=fields_of(schema),
            name=schema.name if self._name is None else self._name,
            version=schema.version if self._version is None else self._version,
        )


class SetSchemaMetadataKey(SetSchemaMetadata):
    part = "key"


class SetSchemaMetadataValue(SetSchemaMetadata):
    part = "value"

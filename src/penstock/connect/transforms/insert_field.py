"""InsertField: topic, partition, offset, timestamp or a fixed text as fields of the key or value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from penstock.connect.config.definition import ConfigDef, ConfigException, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import invalid, parse
from penstock.connect.data.records import Column, RecordGroup, StepResult
from penstock.connect.data.schema import INT32, INT64, STRING, Field, Schema, timestamp
from penstock.connect.transforms.parts import (
    PartTransform,
    RecordError,
    Rows,
    check_field,
    map_column,
    members,
    merge,
    read_field,
    repeat,
    require_map,
    require_struct,
    split_by_patterns,
    struct_column,
    struct_schema,
)
from penstock.connect.transforms.properties import REPLACE_NULL_WITH_DEFAULT

_PURPOSE: Final = "field insertion"
_OPTIONALITY: Final = "A name that ends in `!` makes a required field; `?`, or neither, makes an optional one."
_SCHEMAS: Final = {
    "topic.field": STRING,
    "partition.field": INT32,
    "offset.field": INT64,
    "timestamp.field": timestamp(),
    "static.field": STRING,
}


@dataclass(frozen=True, slots=True)
class _Insertion:
    name: str
    is_optional: bool

    @classmethod
    def parse(cls, text: str) -> _Insertion:
        return cls(text[:-1] if text.endswith(("?", "!")) else text, not text.endswith("!"))


def _field_key(name: str, what: str) -> ConfigKey:
    return ConfigKey(name, ConfigType.STRING, None, Importance.MEDIUM, f"The field that gets {what}. {_OPTIONALITY}")


class InsertField(PartTransform):
    definition = ConfigDef(
        (
            _field_key("topic.field", "the record's topic"),
            _field_key("partition.field", "the record's partition"),
            _field_key("offset.field", "the record's offset; only for sink connectors"),
            _field_key("timestamp.field", "the record's timestamp"),
            _field_key("static.field", "the text of `static.value`"),
            ConfigKey(
                "static.value", ConfigType.STRING, None, Importance.MEDIUM, "The text for the field `static.field`."
            ),
            REPLACE_NULL_WITH_DEFAULT,
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        values = parse(self.definition, config)
        self._insertions = {name: _Insertion.parse(values[name]) for name in _SCHEMAS if values[name] is not None}
        self._static_value: str | None = values["static.value"]
        self._with_default: bool = values["replace.null.with.default"]
        if not self._insertions:
            raise ConfigException("No field insertion configured")
        if "static.field" in self._insertions and self._static_value is None:
            raise invalid("static.value", "null", f"No value specified for static field: {values['static.field']}")

    def apply_present(self, group: RecordGroup, column: Column) -> StepResult:
        if column.schema is not None:
            return self._insert_into_structs(group, column)
        require_map(column, _PURPOSE)
        # A record without partition or timestamp gets no such key, so its map has another shape.
        masks = [
            getattr(group, name).is_null() for name in ("partition", "timestamp") if f"{name}.field" in self._insertions
        ]
        return merge([self._insert_into_maps(piece) for piece in split_by_patterns(group, masks)])

    def _insert_into_maps(self, group: RecordGroup) -> StepResult:
        column = self.column(group)
        columns = members(column.values)
        for name, insertion in self._insertions.items():
            values = self._inserted(group, name)
            if name not in ("partition.field", "timestamp.field") or values.null_count == 0:
                columns[insertion.name] = values
        return StepResult((self.with_column(group, map_column(columns, len(group))),))

    def _insert_into_structs(self, group: RecordGroup, column: Column) -> StepResult:
        old = require_struct(column, _PURPOSE)
        inserted = [
            Field(insertion.name, _schema(name, is_optional=insertion.is_optional))
            for name, insertion in self._insertions.items()
        ]
        schema = struct_schema(old, [*old.fields, *inserted])
        rows = Rows(group)
        columns = members(column.values)
        for field in old.fields:
            values = read_field(field, columns[field.name], with_default=self._with_default)
            columns[field.name] = check_field(rows, field, values)
        for name, insertion in self._insertions.items():
            try:
                columns[insertion.name] = self._inserted(group, name)
            except RecordError as error:
                return rows.all_fail(error)
        return rows.result(self.with_column(group, struct_column(schema, columns, len(group))))

    def _inserted(self, group: RecordGroup, name: str) -> pa.Array:
        match name:
            case "topic.field":
                return group.topic
            case "partition.field":
                return group.partition
            case "timestamp.field":
                return group.timestamp
            case "offset.field":
                if group.offset is None:
                    found = "org.apache.kafka.connect.source.SourceRecord"
                    raise RecordError(f"Only SinkRecord supported for [{_PURPOSE}], found: {found}")
                return group.offset
        return repeat(self._static_value, pa.string(), len(group))


def _schema(name: str, *, is_optional: bool) -> Schema:
    return replace(_SCHEMAS[name], is_optional=is_optional)


class InsertFieldKey(InsertField):
    part = "key"


class InsertFieldValue(InsertField):
    part = "value"

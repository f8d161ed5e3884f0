"""DropHeaders, InsertHeader and HeaderFrom. All records of a group have the same headers, so they work on names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from penstock.connect.config.definition import ConfigDef, ConfigException, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import invalid, one_of, parse
from penstock.connect.data.records import Column, RecordGroup, StepResult
from penstock.connect.data.values import parse as parse_literal
from penstock.connect.transforms.java.values import NULL_POINTER, schema_text
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
from penstock.connect.transforms.properties import REPLACE_NULL_WITH_DEFAULT, names, non_empty_list, non_null
from penstock.connect.transforms.transform import Transform

NO_FIELD = (
    'Cannot invoke "org.apache.kafka.connect.data.Field.schema()" because the return value of '
    '"org.apache.kafka.connect.data.Schema.field(String)" is null'
)


class DropHeaders(Transform):
    definition = ConfigDef(
        (
            ConfigKey(
                "headers",
                ConfigType.LIST,
                importance=Importance.HIGH,
                doc="The names of the headers to drop.",
                validator=names(allow_empty=False),
            ),
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        self._names = frozenset(parse(self.definition, config)["headers"])

    def apply(self, group: RecordGroup) -> StepResult:
        kept = tuple((name, column) for name, column in group.headers if name not in self._names)
        return StepResult((replace(group, headers=kept),))


class InsertHeader(Transform):
    definition = ConfigDef(
        (
            ConfigKey(
                "header",
                ConfigType.STRING,
                importance=Importance.HIGH,
                doc="The name of the header.",
                validator=non_null,
            ),
            ConfigKey(
                "value.literal",
                ConfigType.STRING,
                importance=Importance.HIGH,
                doc="The value of the header. Its schema is inferred: numbers, booleans, dates, lists and maps are "
                "recognised, anything else is a text.",
                validator=non_null,
            ),
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        values = parse(self.definition, config)
        self._name: str = values["header"]
        self._schema, value = parse_literal(values["value.literal"])
        arrow_type = pa.null() if self._schema is None else self._schema.arrow_type
        try:
            self._value = pa.array([value], arrow_type)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            raise invalid(
                "value.literal", values["value.literal"], "The members of a list or map must have one type"
            ) from None

    def apply(self, group: RecordGroup) -> StepResult:
        values = self._value.take(pa.array(np.zeros(len(group), dtype=np.int64)))
        header = (self._name, Column(self._schema, values))
        return StepResult((replace(group, headers=(*group.headers, header)),))


class HeaderFrom(PartTransform):
    definition = ConfigDef(
        (
            ConfigKey(
                "fields",
                ConfigType.LIST,
                importance=Importance.HIGH,
                doc="The fields whose values become headers.",
                validator=non_empty_list,
            ),
            ConfigKey(
                "headers",
                ConfigType.LIST,
                importance=Importance.HIGH,
                doc="The names of the headers, in the order of `fields`.",
                validator=non_empty_list,
            ),
            ConfigKey(
                "operation",
                ConfigType.STRING,
                importance=Importance.HIGH,
                doc="`move` takes the fields out of the key or value; `copy` leaves them there.",
                validator=one_of("move", "copy"),
            ),
            REPLACE_NULL_WITH_DEFAULT,
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        values = parse(self.definition, config)
        if len(values["fields"]) != len(values["headers"]):
            raise ConfigException("'fields' config must have the same number of elements as 'headers' config.")
        self._pairs = list(zip(values["fields"], values["headers"], strict=True))
        self._fields = frozenset(values["fields"])
        self._operation: str = values["operation"]
        self._with_default: bool = values["replace.null.with.default"]

    def apply_null(self, group: RecordGroup, column: Column) -> StepResult:
        raise null_found(column.schema, f"header {self._operation}")

    def apply_present(self, group: RecordGroup, column: Column) -> StepResult:
        if column.schema is not None:
            return self._from_structs(group, column)
        require_map(column, f"header {self._operation}")
        columns = members(column.values)
        headers = [(header, Column(None, columns.get(field, pa.nulls(len(group))))) for field, header in self._pairs]
        if self._operation == "move":
            kept = {name: values for name, values in columns.items() if name not in self._fields}
            group = self.with_column(group, map_column(kept, len(group)))
        return StepResult((replace(group, headers=(*group.headers, *headers)),))

    def _from_structs(self, group: RecordGroup, column: Column) -> StepResult:
        schema = require_struct(column, f"header {self._operation}")
        rows = Rows(group)
        columns = members(column.values)
        for field in schema.fields:
            columns[field.name] = read_field(field, columns[field.name], with_default=self._with_default)
        changed = group
        if self._operation == "move":
            kept = [field for field in schema.fields if field.name not in self._fields]
            for field in kept:
                check_field(rows, field, columns[field.name])
            changed = self.with_column(group, struct_column(struct_schema(schema, kept), columns, len(group)))
        headers = []
        for name, header in self._pairs:
            found = schema.field(name)
            if found is None:
                return rows.all_fail(RecordError(NO_FIELD, NULL_POINTER))
            values = columns[name]
            if not found.schema.is_optional:
                why = f"A null value requires an optional schema but was {schema_text(found.schema)}"
                rows.fail(np.asarray(values.is_null().to_numpy(zero_copy_only=False)), why)
            headers.append((header, Column(found.schema, values)))
        return rows.result(replace(changed, headers=(*group.headers, *headers)))


class HeaderFromKey(HeaderFrom):
    part = "key"


class HeaderFromValue(HeaderFrom):
    part = "value"

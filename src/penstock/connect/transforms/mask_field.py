"""MaskField: replaces the values of fields by nothing of their type, or by a given text or number."""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import non_empty, parse
from penstock.connect.data.records import Column, RecordGroup, StepResult
from penstock.connect.data.schema import DECIMAL_SCALE, Schema, Type
from penstock.connect.transforms.java.casting import INTEGERS
from penstock.connect.transforms.java.values import class_name, hash_order, schemaless_type
from penstock.connect.transforms.parts import (
    PartTransform,
    RecordError,
    Rows,
    check_field,
    map_column,
    members,
    null_found,
    read_field,
    repeat,
    require_map,
    require_struct,
    struct_column,
)
from penstock.connect.transforms.properties import REPLACE_NULL_WITH_DEFAULT, names

_PURPOSE: Final = "mask fields"
_NOTHING: Final = {
    "java.lang.Boolean": False,
    "java.lang.String": "",
    "java.util.Date": 0,
    "java.util.ArrayList": [],
    "java.math.BigDecimal": b"\x00",
}
_NUMBERS: Final = frozenset(f"java.lang.{name}" for name in ("Byte", "Short", "Integer", "Long", "Float", "Double"))


class MaskField(PartTransform):
    definition = ConfigDef(
        (
            ConfigKey(
                "fields",
                ConfigType.LIST,
                importance=Importance.HIGH,
                doc="The fields to mask.",
                validator=names(allow_empty=False),
            ),
            ConfigKey(
                "replacement",
                ConfigType.STRING,
                None,
                Importance.LOW,
                "The text or number that takes the place of the values. Without it, they become 0, false, an empty "
                "text, an empty list or an empty map.",
                non_empty,
            ),
            REPLACE_NULL_WITH_DEFAULT,
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        values = parse(self.definition, config)
        self._fields = tuple(hash_order(values["fields"], copied=True))
        self._replacement: str | None = values["replacement"]
        self._with_default: bool = values["replace.null.with.default"]

    def apply_null(self, group: RecordGroup, column: Column) -> StepResult:
        raise null_found(column.schema, _PURPOSE)

    def apply_present(self, group: RecordGroup, column: Column) -> StepResult:
        rows = Rows(group)
        length = len(group)
        if column.schema is None:
            require_map(column, _PURPOSE)
            columns = members(column.values)
            for name in self._fields:
                columns[name] = self._masked(rows, None, columns[name]) if name in columns else pa.nulls(length)
            return rows.result(self.with_column(group, map_column(columns, length)))
        schema = require_struct(column, _PURPOSE)
        columns = members(column.values)
        for field in schema.fields:
            values = read_field(field, columns[field.name], with_default=self._with_default)
            if field.name in self._fields:
                values = self._masked(rows, field.schema, values)
            columns[field.name] = check_field(rows, field, values)
        return rows.result(self.with_column(group, struct_column(schema, columns, length)))

    def _masked(self, rows: Rows, schema: Schema | None, values: pa.Array) -> pa.Array:
        if values.null_count == len(values):
            return values
        try:
            mask = self._mask(schema, values.type)
        except RecordError as error:
            rows.fail(values.is_valid().to_numpy(zero_copy_only=False), str(error), error.java_class)
            return values
        if schema is None and pa.types.is_struct(values.type):
            # An empty map; a struct without fields has no other value to tell from null.
            empty: list[dict[str, Any] | None] = [None if null else {} for null in values.is_null().to_pylist()]
            return pa.array(empty, pa.struct([]))
        constant = repeat(mask, values.type, len(values))
        return pc.if_else(values.is_valid(), constant, values) if values.null_count else constant

    def _mask(self, schema: Schema | None, arrow_type: pa.DataType) -> Any:
        java_class = class_name(schema, arrow_type)
        if self._replacement is not None:
            return self._converted(self._replacement, java_class, schema, arrow_type)
        if java_class in _NUMBERS:
            return 0
        if java_class == "java.util.HashMap":
            return []
        if java_class not in _NOTHING:
            raise RecordError(f"Cannot mask value of type: class {java_class}")
        return _NOTHING[java_class]

    @staticmethod
    def _converted(text: str, java_class: str, schema: Schema | None, arrow_type: pa.DataType) -> Any:
        if java_class == "java.lang.String":
            return text
        if java_class not in _NUMBERS and java_class != "java.math.BigDecimal":
            raise RecordError(f"Cannot mask value of type class {java_class} with custom replacement.")
        number = _number(text)
        if java_class == "java.math.BigDecimal":
            assert schema is not None
            if number is None:
                raise RecordError(f"Unable to convert {text} (class java.lang.String) to number")
            return _unscaled(number, int(schema.parameter(DECIMAL_SCALE) or 0))
        if number is None:
            raise RecordError(f"Unable to convert {text} (class java.lang.String) to a number")
        target = schema.type if schema is not None else schemaless_type(arrow_type)
        if target in INTEGERS:
            bits = np.dtype(INTEGERS[target][0]).itemsize * 8
            wrapped = int(number) & (2**bits - 1)
            return wrapped - 2**bits if wrapped >= 2 ** (bits - 1) else wrapped
        return float(number) if target is Type.FLOAT64 else float(np.float32(float(number)))


def _number(text: str) -> decimal.Decimal | None:
    try:
        number = decimal.Decimal(text)
    except decimal.InvalidOperation:
        return None
    return number if number.is_finite() and "_" not in text and text == text.strip() else None


def _unscaled(number: decimal.Decimal, scale: int) -> bytes:
    """Kafka keeps the scale of the replacement, which its converters refuse later; this keeps the schema's."""
    with decimal.localcontext(prec=decimal.MAX_PREC):
        unscaled = int(number.scaleb(scale).to_integral_value(decimal.ROUND_HALF_EVEN))
    return unscaled.to_bytes(unscaled.bit_length() // 8 + 1, "big", signed=True)


class MaskFieldKey(MaskField):
    part = "key"


class MaskFieldValue(MaskField):
    part = "value"

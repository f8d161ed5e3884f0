"""TimestampConverter: points in time between texts, Unix time, and Connect's Date, Time and Timestamp."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from penstock.connect.config.definition import ConfigDef, ConfigException, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import invalid, one_of, parse
from penstock.connect.data.records import Column, RecordGroup, StepResult
from penstock.connect.data.schema import (
    DATE,
    INT64,
    STRING,
    TIME,
    TIMESTAMP,
    Field,
    Schema,
    Type,
    date,
    time,
    timestamp,
)
from penstock.connect.transforms.java.date_format import PatternError, SimpleDateFormat
from penstock.connect.transforms.java.values import (
    CONNECT_EXCEPTION,
    ILLEGAL_ARGUMENT,
    NULL_POINTER,
    class_name,
    schema_text,
)
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
from penstock.connect.transforms.properties import REPLACE_NULL_WITH_DEFAULT

_PURPOSE: Final = "converting timestamp formats"
_MILLIS_PER_DAY: Final = 86_400_000
_SCHEMAS: Final = {"string": STRING, "unix": INT64, "Date": date(), "Time": time(), "Timestamp": timestamp()}
_LOGICAL: Final = {TIMESTAMP: "Timestamp", DATE: "Date", TIME: "Time"}
_PRECISIONS: Final = ("nanoseconds", "microseconds", "milliseconds", "seconds")
_PER_MILLI: Final = {"microseconds": 1000, "nanoseconds": 1_000_000}

Millis = npt.NDArray[np.int64]


class TimestampConverter(PartTransform):
    definition = ConfigDef(
        (
            ConfigKey(
                "field",
                ConfigType.STRING,
                "",
                Importance.HIGH,
                "The field that holds the point in time; empty if the whole key or value does.",
            ),
            ConfigKey(
                "target.type",
                ConfigType.STRING,
                importance=Importance.HIGH,
                doc="What it becomes: string, unix, Date, Time or Timestamp.",
                validator=one_of(*_SCHEMAS),
            ),
            ConfigKey(
                "format",
                ConfigType.STRING,
                "",
                Importance.MEDIUM,
                "The pattern of java.text.SimpleDateFormat in which texts are read and written, in UTC.",
            ),
            ConfigKey(
                "unix.precision",
                ConfigType.STRING,
                "milliseconds",
                Importance.LOW,
                "The unit of Unix time, read and written: seconds, milliseconds, microseconds or nanoseconds. What is "
                "finer than a millisecond is lost.",
                one_of(*_PRECISIONS),
            ),
            REPLACE_NULL_WITH_DEFAULT,
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        values = parse(self.definition, config)
        self._field: str = values["field"]
        self._target: str = values["target.type"]
        self._precision: str = values["unix.precision"]
        self._with_default: bool = values["replace.null.with.default"]
        pattern: str = values["format"]
        if self._target == "string" and not pattern.strip():
            raise ConfigException(
                "TimestampConverter requires format option to be specified when using string timestamps"
            )
        try:
            self._format = SimpleDateFormat(pattern) if pattern.strip() else None
        except PatternError as error:
            raise invalid(
                "TimestampConverter requires a SimpleDateFormat-compatible pattern for string timestamps: " + pattern,
                f"{ILLEGAL_ARGUMENT}: {error}",
            ) from None

    def apply_null(self, group: RecordGroup, column: Column) -> StepResult:
        if column.schema is None:
            return StepResult((group,))
        if not self._field:
            _kind(column.schema)
            schema = self._target_schema(column.schema)
        else:
            schema = self._struct_schema(column.schema)
        return StepResult((self.with_column(group, Column(schema, pa.nulls(len(group), schema.arrow_type))),))

    def apply_present(self, group: RecordGroup, column: Column) -> StepResult:
        rows = Rows(group)
        length = len(group)
        if not self._field:
            schema = None if column.schema is None else self._target_schema(column.schema)
            changed = Column(schema, self._convert(rows, column.schema, column.values))
        elif column.schema is None:
            require_map(column, _PURPOSE)
            columns = members(column.values)
            found = columns.get(self._field, pa.nulls(length))
            columns[self._field] = self._convert(rows, None, found)
            changed = map_column(columns, length)
        else:
            old = require_struct(column, _PURPOSE)
            schema = self._struct_schema(old)
            columns = members(column.values)
            for before, after in zip(old.fields, schema.fields, strict=True):
                values = read_field(before, columns[before.name], with_default=self._with_default)
                if before.name == self._field:
                    try:
                        values = self._convert(rows, before.schema, values)
                    except RecordError as error:
                        return rows.all_fail(error)
                columns[before.name] = check_field(rows, after, values)
            changed = struct_column(schema, columns, length)
        return rows.result(self.with_column(group, changed))

    def _target_schema(self, schema: Schema) -> Schema:
        return replace(_SCHEMAS[self._target], is_optional=schema.is_optional)

    def _struct_schema(self, old: Schema) -> Schema:
        fields = [
            Field(field.name, self._target_schema(field.schema)) if field.name == self._field else field
            for field in fields_of(old)
        ]
        return replace(struct_schema(old, fields), is_optional=old.is_optional)

    # From one form to another, through milliseconds since 1970

    def _convert(self, rows: Rows, schema: Schema | None, values: pa.Array) -> pa.Array:
        kind = _kind(schema) if schema is not None else _inferred_kind(values)
        if values.null_count == len(values):
            return pa.nulls(len(values), self._arrow_type(schema))
        if kind == "string" and self._format is None:
            why = 'Cannot invoke "java.text.SimpleDateFormat.parse(String)" because "config.format" is null'
            return self._bad(rows, schema, values, why, NULL_POINTER)
        if kind is None:
            why = f"TimestampConverter does not support class {class_name(None, values.type)} objects as timestamps"
            return self._bad(rows, schema, values, why)
        millis = self._to_millis(rows, kind, values)
        return self._from_millis(schema, millis)

    def _arrow_type(self, schema: Schema | None) -> pa.DataType:
        """Without a schema, Date, Time and Timestamp are all a java.util.Date."""
        if schema is None and self._target in _LOGICAL.values():
            return pa.timestamp("ms")
        return _SCHEMAS[self._target].arrow_type

    def _bad(
        self, rows: Rows, schema: Schema | None, values: pa.Array, why: str, java_class: str | None = None
    ) -> pa.Array:
        error = RecordError(why, java_class) if java_class else RecordError(why)
        rows.fail(values.is_valid().to_numpy(zero_copy_only=False), why, error.java_class)
        return pa.nulls(len(values), self._arrow_type(schema))

    def _to_millis(self, rows: Rows, kind: str, values: pa.Array) -> pa.Array:
        if kind == "string":
            assert self._format is not None
            pattern = self._format.pattern
            millis = self._format.parse(values)
            bad = millis.is_null().to_numpy(zero_copy_only=False) & values.is_valid().to_numpy(zero_copy_only=False)
            rows.fail_each(
                bad,
                lambda index: f"Could not parse timestamp: value ({values[index]}) does not match pattern ({pattern})",
            )
            return millis
        numbers = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        if kind == "Date":
            numbers = numbers * _MILLIS_PER_DAY
        elif kind == "unix" and self._precision == "seconds":
            numbers = _saturating_multiply(numbers, 1000)
        elif kind == "unix" and self._precision in _PER_MILLI:
            numbers = _truncating_divide(numbers, _PER_MILLI[self._precision])
        return pa.array(numbers, mask=values.is_null().to_numpy(zero_copy_only=False))

    def _from_millis(self, schema: Schema | None, millis: pa.Array) -> pa.Array:
        if self._target == "string":
            assert self._format is not None
            return self._format.format(millis)
        numbers: Millis = millis.fill_null(0).to_numpy(zero_copy_only=False)
        days = np.floor_divide(numbers, _MILLIS_PER_DAY)
        if self._target == "unix":
            if self._precision == "seconds":
                numbers = _truncating_divide(numbers, 1000)
            elif self._precision in _PER_MILLI:
                numbers = _saturating_multiply(numbers, _PER_MILLI[self._precision])
        elif self._target == "Date":
            numbers = days if schema is not None else days * _MILLIS_PER_DAY
        elif self._target == "Time":
            numbers = numbers - days * _MILLIS_PER_DAY
        arrow_type = self._arrow_type(schema)
        nulls = millis.is_null().to_numpy(zero_copy_only=False)
        if arrow_type == pa.int32():
            # As Java narrows; the number of days wraps in the year 5,881,580.
            return pa.array(numbers.astype(np.int32), mask=nulls)
        return pa.array(numbers, mask=nulls).cast(arrow_type)


def _kind(schema: Schema) -> str:
    if schema.name in _LOGICAL:
        return _LOGICAL[schema.name]
    if schema.type is Type.STRING:
        return "string"
    if schema.type is Type.INT64:
        return "unix"
    raise RecordError(
        f"Schema {schema_text(schema)} does not correspond to a known timestamp type format", CONNECT_EXCEPTION
    )


def _inferred_kind(values: pa.Array) -> str | None:
    if pa.types.is_timestamp(values.type):
        return "Timestamp"
    return {pa.int64(): "unix", pa.string(): "string"}.get(values.type)


def _truncating_divide(numbers: Millis, divisor: int) -> Millis:
    """Towards zero, as Java divides."""
    quotients: Millis = np.floor_divide(numbers, divisor)
    rounded_down: npt.NDArray[np.bool_] = (numbers < 0) & (quotients * divisor != numbers)
    return np.add(quotients, rounded_down)


def _saturating_multiply(numbers: Millis, factor: int) -> Millis:
    """As java.util.concurrent.TimeUnit does."""
    bounds = np.iinfo(np.int64)
    limit = bounds.max // factor
    product = np.clip(numbers, -limit, limit) * factor
    return np.where(numbers > limit, bounds.max, np.where(numbers < -limit, bounds.min, product))


class TimestampConverterKey(TimestampConverter):
    part = "key"


class TimestampConverterValue(TimestampConverter):
    part = "value"

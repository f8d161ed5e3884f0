"""Converters of single numbers and booleans, which have a fixed number of bytes, most significant first.

Owns Kafka's serializers of these types, and the messages of their converters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connect.converters.converter import ConvertedGroup, Converter, FromTopic, ToTopic
from penstock.connect.converters.header_adapter import AdaptedHeaderConverter
from penstock.connect.converters.properties import CONVERTER_DEFINITION
from penstock.connect.data.java_objects import class_of
from penstock.connect.data.records import Column, Failure
from penstock.connect.data.schema import BOOLEAN, FLOAT32, FLOAT64, INT16, INT32, INT64, Schema, Type


class FixedSizeConverter(Converter):
    """A subclass names the schema, Kafka's word for the type, and the layout of a value."""

    definition = CONVERTER_DEFINITION
    schema: ClassVar[Schema]
    type_name: ClassVar[str]
    dtype: ClassVar[str]

    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        pass

    def to_connect(self, topics: pa.Array, payloads: pa.Array) -> FromTopic:
        failed = self._damaged(payloads)
        failures = (Failure(failed.tolist(), f"Failed to deserialize {self.type_name}: "),) if len(failed) else ()
        rows = np.setdiff1d(np.arange(len(payloads)), failed) if len(failed) else np.arange(len(payloads))
        if not len(rows):
            return FromTopic((), failures)
        values = self._decoded(payloads.take(pa.array(rows)) if len(failed) else payloads)
        return FromTopic(
            (ConvertedGroup(pa.array(rows), Column(replace(self.schema, is_optional=True), values)),), failures
        )

    def from_connect(self, topics: pa.Array, column: Column) -> ToTopic:
        values = column.values
        if values.null_count == len(values):
            return ToTopic(pa.nulls(len(values), pa.binary()))
        java_class = class_of(column.schema, values.type)
        if java_class != class_of(self.schema, self.schema.arrow_type):
            failed = np.flatnonzero(np.asarray(values.is_valid())).tolist()
            message = f"Failed to serialize to {self.type_name} (was class {java_class}): "
            return ToTopic(pa.nulls(len(values), pa.binary()), (Failure(failed, message),))
        return ToTopic(self._encoded(values))

    def _damaged(self, payloads: pa.Array) -> np.ndarray:
        lengths = pc.fill_null(pc.binary_length(payloads), self._width)
        return np.flatnonzero(np.asarray(pc.not_equal(lengths, self._width)))

    @property
    def _width(self) -> int:
        return np.dtype(self.dtype).itemsize

    def _decoded(self, payloads: pa.Array) -> pa.Array:
        blank = pa.scalar(bytes(self._width), pa.binary())
        whole = payloads.fill_null(blank) if payloads.null_count else payloads
        fixed = whole.cast(pa.binary(self._width))
        content = np.frombuffer(fixed.buffers()[1], self.dtype, len(fixed), fixed.offset * self._width)
        numbers = content.astype(np.dtype(self.dtype).newbyteorder("="))
        mask = np.asarray(payloads.is_null()) if payloads.null_count else None
        return pa.array(self._values(numbers), self.schema.arrow_type, mask=mask)

    def _values(self, numbers: np.ndarray) -> np.ndarray:
        return numbers

    def _encoded(self, values: pa.Array) -> pa.Array:
        plain = pc.fill_null(values, pa.scalar(0).cast(values.type))
        numbers = np.asarray(plain.to_numpy(zero_copy_only=False)).astype(self.dtype)
        fixed = pa.Array.from_buffers(pa.binary(self._width), len(values), [None, pa.py_buffer(numbers.tobytes())])
        payloads = fixed.cast(pa.binary())
        return pc.if_else(values.is_valid(), payloads, pa.scalar(None, pa.binary())) if values.null_count else payloads


class BooleanConverter(FixedSizeConverter):
    schema, type_name, dtype = BOOLEAN, "boolean", "u1"

    def from_connect(self, topics: pa.Array, column: Column) -> ToTopic:
        schema, values = column.schema, column.values
        message = None
        if schema is not None and schema.type is not Type.BOOLEAN:
            message = f"Invalid schema type for BooleanConverter: {schema.type.name}"
            failed = list(range(len(values)))
        elif not (pa.types.is_boolean(values.type) or values.null_count == len(values)):
            message = f"BooleanConverter is not compatible with objects of type class {class_of(schema, values.type)}"
            failed = np.flatnonzero(np.asarray(values.is_valid())).tolist()
        if message is not None:
            return ToTopic(pa.nulls(len(values), pa.binary()), (Failure(failed, message),))
        return super().from_connect(topics, column)

    def _damaged(self, payloads: pa.Array) -> np.ndarray:
        known = pa.array([None, b"\0", b"\1"], pa.binary())
        return np.flatnonzero(~np.asarray(pc.is_in(payloads, value_set=known)))

    def _values(self, numbers: np.ndarray) -> np.ndarray:
        return numbers.astype(np.bool_)


class ShortConverter(FixedSizeConverter):
    schema, type_name, dtype = INT16, "short", ">i2"


class IntegerConverter(FixedSizeConverter):
    schema, type_name, dtype = INT32, "integer", ">i4"


class LongConverter(FixedSizeConverter):
    schema, type_name, dtype = INT64, "long", ">i8"


class FloatConverter(FixedSizeConverter):
    schema, type_name, dtype = FLOAT32, "float", ">f4"


class DoubleConverter(FixedSizeConverter):
    schema, type_name, dtype = FLOAT64, "double", ">f8"


class BooleanHeaderConverter(AdaptedHeaderConverter):
    kind = BooleanConverter


class ShortHeaderConverter(AdaptedHeaderConverter):
    kind = ShortConverter


class IntegerHeaderConverter(AdaptedHeaderConverter):
    kind = IntegerConverter


class LongHeaderConverter(AdaptedHeaderConverter):
    kind = LongConverter


class FloatHeaderConverter(AdaptedHeaderConverter):
    kind = FloatConverter


class DoubleHeaderConverter(AdaptedHeaderConverter):
    kind = DoubleConverter

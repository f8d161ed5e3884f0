"""ByteArrayConverter: bytes as they are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.connect.converters.converter import ConvertedGroup, Converter, FromTopic, ToTopic
from penstock.connect.converters.header_adapter import AdaptedHeaderConverter
from penstock.connect.converters.properties import CONVERTER_DEFINITION
from penstock.connect.data.java_objects import class_of
from penstock.connect.data.records import Column, Failure
from penstock.connect.data.schema import BYTES, DECIMAL, Type

OPTIONAL_BYTES: Final = replace(BYTES, is_optional=True)


class ByteArrayConverter(Converter):
    definition = CONVERTER_DEFINITION

    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        pass

    def to_connect(self, topics: pa.Array, payloads: pa.Array) -> FromTopic:
        if not len(payloads):
            return FromTopic(())
        rows = pa.array(np.arange(len(payloads)))
        return FromTopic((ConvertedGroup(rows, Column(OPTIONAL_BYTES, payloads)),))

    def from_connect(self, topics: pa.Array, column: Column) -> ToTopic:
        schema, values = column.schema, column.values
        if schema is not None and schema.type is not Type.BYTES:
            message = f"Invalid schema type for ByteArrayConverter: {schema.type.name}"
            return ToTopic(pa.nulls(len(values), pa.binary()), (Failure(range(len(values)), message),))
        if values.null_count == len(values):
            return ToTopic(pa.nulls(len(values), pa.binary()))
        if not pa.types.is_binary(values.type) or (schema is not None and schema.name == DECIMAL):
            name = class_of(schema, values.type)
            failed = np.flatnonzero(np.asarray(values.is_valid())).tolist()
            message = f"ByteArrayConverter is not compatible with objects of type class {name}"
            return ToTopic(pa.nulls(len(values), pa.binary()), (Failure(failed, message),))
        return ToTopic(values)


class ByteArrayHeaderConverter(AdaptedHeaderConverter):
    kind = ByteArrayConverter

"""`toString()` of whole columns, as `java_objects.text_of` says it for one value.

Texts of all rows are put together from pieces, and Arrow joins them in one pass.

Owns the texts of structs, maps and lists. It must not know who shows them.

Invariant: `java_texts(schema, array)[n]` is `text_of(schema, array[n])`, and null for a null.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connect.data import schema as schemas
from penstock.connect.data.java_objects import text_of
from penstock.connect.data.schema import Schema, Type
from penstock.connect.data.text_columns import Piece, each_text, filled, float_texts, joined, joined_lists

_DATES = (schemas.DATE, schemas.TIME, schemas.TIMESTAMP)


def java_texts(schema: Schema | None, array: pa.Array, *, bytes_text: Callable[[bytes], str] | None = None) -> pa.Array:
    """`bytes_text` writes bytes that are not a Decimal; Java shows the identity of their array."""
    if array.null_count == len(array):
        return pa.nulls(len(array), pa.string())
    texts = joined(_Texts(bytes_text).pieces(schema, array), len(array))
    return pc.if_else(array.is_valid(), texts, pa.scalar(None, pa.string())) if array.null_count else texts


@dataclass(frozen=True, slots=True)
class _Texts:
    bytes_text: Callable[[bytes], str] | None

    def pieces(self, schema: Schema | None, array: pa.Array) -> list[Piece]:
        """Of rows that are not null; what they are for the others does not matter."""
        arrow_type = array.type
        if pa.types.is_string(arrow_type):
            return [filled(array)]
        if pa.types.is_boolean(arrow_type):
            return [filled(array.cast(pa.string()))]
        if pa.types.is_integer(arrow_type) and (schema is None or schema.name not in _DATES):
            return [filled(array.cast(pa.string()))]
        if pa.types.is_floating(arrow_type):
            return [filled(float_texts(array))]
        if pa.types.is_struct(arrow_type):
            is_struct = schema is not None and schema.type is Type.STRUCT
            return self._struct(schema, array) if schema is not None and is_struct else self._map_without_schema(array)
        if pa.types.is_map(arrow_type):
            return self._map(schema, array)
        if pa.types.is_list(arrow_type):
            return self._list(schema, array)
        if pa.types.is_union(arrow_type):  # which has no nulls of its own
            return [pa.array([text_of(None, value) for value in array.to_pylist()], pa.string())]
        return [each_text(array, self._single(schema, arrow_type))]

    def _single(self, schema: Schema | None, arrow_type: pa.DataType) -> Callable[[Any], str]:
        is_decimal = schema is not None and schema.name == schemas.DECIMAL
        if self.bytes_text is not None and pa.types.is_binary(arrow_type) and not is_decimal:
            return self.bytes_text
        return lambda value: text_of(schema, value)

    def _member(self, schema: Schema | None, array: pa.Array) -> list[Piece]:
        """Pieces for all rows, with `null` for nulls."""
        count = len(array)
        if array.null_count == count and count:
            return ["null"]
        pieces = self.pieces(schema, array)
        return [pc.if_else(array.is_valid(), joined(pieces, count), "null")] if array.null_count else pieces

    def _struct(self, schema: Schema, array: pa.Array) -> list[Piece]:
        """A field that is null is left out."""
        columns = [array.field(number) for number in range(array.type.num_fields)]
        if any(column.null_count for column in columns):
            texts = [
                self._shown_field(field.name, field.schema, column)
                for field, column in zip(schema.fields, columns, strict=True)
            ]
            return ["Struct{", pc.binary_join_element_wise(*texts, ",", null_handling="skip"), "}"]
        members = [
            (field.name, self.pieces(field.schema, column))
            for field, column in zip(schema.fields, columns, strict=True)
        ]
        return ["Struct{", *_separated(members, ","), "}"]

    def _shown_field(self, name: str, schema: Schema, column: pa.Array) -> pa.Array:
        text = joined([f"{name}=", *self.pieces(schema, column)], len(column))
        return pc.if_else(column.is_valid(), text, pa.scalar(None, pa.string())) if column.null_count else text

    def _map_without_schema(self, array: pa.Array) -> list[Piece]:
        members = [
            (array.type.field(number).name, self._member(None, array.field(number)))
            for number in range(array.type.num_fields)
        ]
        return ["{", *_separated(members, ", "), "}"]

    def _map(self, schema: Schema | None, array: pa.Array) -> list[Piece]:
        offsets = np.asarray(array.offsets)
        first, end = int(offsets[0]), int(offsets[-1])
        keys, items = array.keys.slice(first, end - first), array.items.slice(first, end - first)
        key_schema, value_schema = (None, None) if schema is None else (schema.key_schema, schema.value_schema)
        pairs = joined([*self._member(key_schema, keys), "=", *self._member(value_schema, items)], len(keys))
        return ["{", joined_lists(pairs, np.diff(offsets), ", "), "}"]

    def _list(self, schema: Schema | None, array: pa.Array) -> list[Piece]:
        counts = np.asarray(pc.fill_null(pc.list_value_length(array), 0))
        elements = array.flatten()
        pieces = self._member(None if schema is None else schema.value_schema, elements)
        return ["[", joined_lists(joined(pieces, len(elements)), counts, ", "), "]"]


def _separated(members: Sequence[tuple[str, list[Piece]]], separator: str) -> list[Piece]:
    return [
        piece
        for number, (name, pieces) in enumerate(members)
        for piece in (f"{separator if number else ''}{name}=", *pieces)
    ]

"""Columns to JSON, as Jackson writes it for Kafka's JsonConverter, whole columns at a time.

Texts of all rows are put together from pieces: what is the same in each row (braces, names) and the text of each
column. Arrow joins them in one pass.

Owns the JSON of values. It must not know envelopes.

Invariants:
- Numbers are written as Java writes them: `1.0E10`, never `1e10`.
- A null that its schema forbids, or a java.util.Date without a schema, is reported for its row, and the others are
  written.
"""

from __future__ import annotations

import binascii
import re
import struct
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.connect.data import schema as schemas
from penstock.connect.data.exact_numbers import unscaled_bytes
from penstock.connect.data.java_objects import decimal_of, decimal_text
from penstock.connect.data.schema import Schema
from penstock.connect.data.text_columns import Piece, each_text, filled, float_texts, joined, joined_lists

NULL_ERROR: Final = "Conversion error: null value for field that is required and has no default value"
"""Of rows with a schema that were not written."""
DATE_ERROR: Final = "Java class class java.util.Date does not have corresponding schema type."
"""Of rows without one."""

_ESCAPES: Final = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ALL_ESCAPES: Final = {chr(code): _ESCAPES.get(chr(code), f"\\u{code:04X}") for code in (*range(32), 0x22, 0x5C)}
_FOUR_BYTES: Final = 0xF0  # the first byte of a character beyond 16 bits
_SPECIAL: Final[NDArray[np.bool_]] = np.isin(np.arange(256), [ord(each) for each in _ALL_ESCAPES])
_SPECIAL[_FOUR_BYTES:] = True
_BEYOND_16_BITS: Final = re.compile("[\U00010000-\U0010ffff]")
_TRANSLATION: Final = str.maketrans(_ALL_ESCAPES)

_Bad = NDArray[np.bool_]


def quoted(text: str) -> str:
    return f'"{_BEYOND_16_BITS.sub(_surrogates, text.translate(_TRANSLATION))}"'


def _surrogates(found: re.Match[str]) -> str:
    """Jackson writes characters beyond 16 bits as two escapes."""
    high, low = struct.unpack(">2H", found.group().encode("utf-16-be"))
    return f"\\u{high:04X}\\u{low:04X}"


@dataclass(frozen=True, slots=True)
class JsonWriter:
    replace_nulls: bool = True
    decimals_as_numbers: bool = False

    def texts(self, schema: Schema | None, array: pa.Array) -> tuple[pa.Array, _Bad | None]:
        """The JSON of each row (string), with `null` for nulls, and which rows cannot be written."""
        pieces, bad = self._pieces(schema, array)
        return joined(pieces, len(array)), bad

    def default_text(self, schema: Schema, array: pa.Array) -> str:
        """The JSON of a schema's default, the only value of the array."""
        text: str = self.texts(schema, array)[0][0].as_py()
        return text

    def _pieces(self, schema: Schema | None, array: pa.Array) -> tuple[list[Piece], _Bad | None]:
        """Pieces without nulls, whose concatenation is the JSON of each row."""
        count = len(array)
        nulls = array.null_count
        if nulls == count and count:
            text, is_bad = self._null(schema)
            return [text], np.ones(count, np.bool_) if is_bad else None
        pieces, bad = self._valid_pieces(schema, array)
        if not nulls:
            return pieces, bad
        valid = array.is_valid()
        is_valid = np.asarray(valid)
        text, is_bad = self._null(schema)
        if bad is not None:
            bad = bad & is_valid
        if is_bad:
            bad = ~is_valid if bad is None else bad | ~is_valid
        return [pc.if_else(valid, joined(pieces, count), text)], bad

    def _null(self, schema: Schema | None) -> tuple[str, bool]:
        """What stands for a null, and whether it is forbidden."""
        if schema is None:
            return "null", False
        if schema.default is not None and self.replace_nulls:
            return self.default_text(schema, pa.array([schema.default], schema.arrow_type)), False
        return "null", not schema.is_optional

    def _valid_pieces(self, schema: Schema | None, array: pa.Array) -> tuple[list[Piece], _Bad | None]:
        """What is written for null rows does not matter."""
        arrow_type = array.type
        if pa.types.is_string(arrow_type):
            return ['"', _escaped(array), '"'], None
        if pa.types.is_integer(arrow_type) or pa.types.is_boolean(arrow_type):
            return [filled(array.cast(pa.string()))], None
        if pa.types.is_floating(arrow_type):
            return [_numbers(array)], None
        if pa.types.is_struct(arrow_type):
            return self._object(schema, array)
        if pa.types.is_map(arrow_type):
            return self._map(schema, array)
        if pa.types.is_list(arrow_type):
            return self._list(schema, array)
        if pa.types.is_binary(arrow_type):
            return [self._bytes(schema, array)], None
        if pa.types.is_null(arrow_type):
            return ["null"], None
        if pa.types.is_union(arrow_type):
            return [pa.array([self._union_text(value) for value in array.to_pylist()], pa.string())], None
        # A java.util.Date without a schema, such as TimestampConverter leaves. Its text is for people.
        return ['"', filled(array.cast(pa.string())), '"'], np.ones(len(array), np.bool_)

    def _bytes(self, schema: Schema | None, array: pa.Array) -> pa.Array:
        if schema is not None and schema.name == schemas.DECIMAL:
            if self.decimals_as_numbers:
                return each_text(array, lambda unscaled: decimal_text(decimal_of(unscaled, schema)))
            return each_text(
                array, lambda unscaled: _base64(unscaled_bytes(int.from_bytes(unscaled, "big", signed=True)))
            )
        return each_text(array, _base64)

    def _union_text(self, value: Any) -> str:
        """Values of different kinds in one list, one by one."""
        from penstock.connect.converters.json.shapes import sort_by_shape

        return self.texts(None, sort_by_shape([value])[0].array)[0][0].as_py()  # type: ignore[no-any-return]

    def _object(self, schema: Schema | None, array: pa.Array) -> tuple[list[Piece], _Bad | None]:
        pieces: list[Piece] = ["{"]
        bad: _Bad | None = None
        for number in range(array.type.num_fields):
            field = array.type.field(number)
            field_schema = None if schema is None else schema.fields[number].schema
            member, member_bad = self._pieces(field_schema, array.field(number))
            pieces += [f"{',' if number else ''}{quoted(field.name)}:", *member]
            bad = _either(bad, member_bad)
        return [*pieces, "}"], bad

    def _list(self, schema: Schema | None, array: pa.Array) -> tuple[list[Piece], _Bad | None]:
        counts = np.asarray(pc.fill_null(pc.list_value_length(array), 0))
        texts, bad = self.texts(None if schema is None else schema.value_schema, array.flatten())
        return ["[", joined_lists(texts, counts, ","), "]"], _any_by_row(bad, counts)

    def _map(self, schema: Schema | None, array: pa.Array) -> tuple[list[Piece], _Bad | None]:
        """With text keys an object, and otherwise a list of pairs."""
        offsets = np.asarray(array.offsets)
        first, end = int(offsets[0]), int(offsets[-1])
        keys, items = array.keys.slice(first, end - first), array.items.slice(first, end - first)
        counts = np.diff(offsets)
        key_texts, bad_keys = self.texts(None if schema is None else schema.key_schema, keys)
        item_texts, bad_items = self.texts(None if schema is None else schema.value_schema, items)
        bad = _either(bad_keys, bad_items)
        if pa.types.is_string(keys.type):
            pairs = joined([key_texts, ":", item_texts], len(keys))
            return ["{", joined_lists(pairs, counts, ","), "}"], _any_by_row(bad, counts)
        pairs = joined(["[", key_texts, ",", item_texts, "]"], len(keys))
        return ["[", joined_lists(pairs, counts, ","), "]"], _any_by_row(bad, counts)


def _either(one: _Bad | None, other: _Bad | None) -> _Bad | None:
    if one is None or other is None:
        return other if one is None else one
    return one | other


def _any_by_row(bad: _Bad | None, counts: NDArray[Any]) -> _Bad | None:
    if bad is None:
        return None
    row_bad = np.zeros(len(counts), np.bool_)
    row_bad[np.repeat(np.arange(len(counts)), counts)[bad]] = True
    return row_bad


def _base64(content: bytes) -> str:
    return f'"{binascii.b2a_base64(content, newline=False).decode()}"'


def _escaped(array: pa.Array) -> pa.Array:
    texts = filled(array)
    content = texts.buffers()[2]
    if content is None or not len(texts):
        return texts
    offsets = np.frombuffer(texts.buffers()[1], np.int32, len(texts) + 1, texts.offset * 4)
    used = np.frombuffer(content, np.uint8)[offsets[0] : offsets[-1]]
    if not _SPECIAL[used].any():
        return texts
    if (used >= _FOUR_BYTES).any():
        return pa.array([quoted(text)[1:-1] for text in texts.to_pylist()], pa.string())
    # The backslash first: the others bring some.
    found = {chr(code) for code in np.unique(used).tolist() if _SPECIAL[code]}
    for character in sorted(found, key=lambda each: each != "\\"):
        texts = pc.replace_substring(texts, character, _ALL_ESCAPES[character])
    return texts


def _numbers(array: pa.Array) -> pa.Array:
    """What JSON has no number for is a text."""
    texts = filled(float_texts(array))
    is_finite = np.isfinite(np.asarray(array.fill_null(0.0)))
    return texts if is_finite.all() else pc.if_else(pa.array(is_finite), texts, joined(['"', texts, '"'], len(texts)))

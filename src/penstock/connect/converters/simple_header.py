"""SimpleHeaderConverter: texts, whose schemas are guessed (`data/values.py`).

Values of a header repeat from record to record: each is parsed once per batch. Plain texts are not parsed at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from penstock.connect.config.definition import ConfigDef
from penstock.connect.converters.converter import ConvertedGroup, FromTopic, HeaderConverter, ToTopic
from penstock.connect.converters.json.shapes import sort_by_shape
from penstock.connect.data import schema as schemas
from penstock.connect.data import value_texts, values
from penstock.connect.data.java_objects import decode_utf8
from penstock.connect.data.records import Column
from penstock.connect.data.schema import Schema

# It begins with a letter, or has one and is longer than any time; no delimiter has a meaning in it.
_TEXT: Final = r'\A(?:[A-Za-z_/][^:,{}\[\]"\\]*|[0-9A-Za-z_/.-]*[A-DF-Za-df-z_/][0-9A-Za-z_/.-]{24}[0-9A-Za-z_/.-]*)\z'
_LITERAL: Final = r"\A(?:null|true|false)[\x00-\x20]*\z"


class SimpleHeaderConverter(HeaderConverter):
    definition = ConfigDef()

    def configure(self, config: Mapping[str, str]) -> None:
        pass

    def to_connect(self, name: str, payloads: pa.Array) -> FromTopic:
        if not len(payloads):
            return FromTopic(())
        encoded = payloads.dictionary_encode(null_encoding="encode")
        codes, distinct = np.asarray(encoded.indices), encoded.dictionary
        is_text = _obvious_texts(distinct)
        by_kind: dict[tuple[Schema | None, pa.DataType], tuple[list[int], list[pa.Array]]] = {}
        if is_text.any():
            texts = distinct.filter(pa.array(is_text)).cast(pa.string())
            by_kind[schemas.STRING, pa.string()] = (np.flatnonzero(is_text).tolist(), [texts])
        for code in np.flatnonzero(~is_text).tolist():
            schema, array = _parsed(distinct[code].as_py())
            its_codes, arrays = by_kind.setdefault((schema, array.type), ([], []))
            its_codes.append(code)
            arrays.append(array)
        groups = []
        for (schema, _type), (its_codes, arrays) in by_kind.items():
            place = np.full(len(distinct), -1, np.int64)
            place[its_codes] = np.arange(len(its_codes))
            rows = np.flatnonzero(place[codes] >= 0)
            column = pa.concat_arrays(arrays).take(pa.array(place[codes[rows]]))
            groups.append(ConvertedGroup(pa.array(rows), Column(schema, column)))
        return FromTopic(groups)

    def from_connect(self, name: str, column: Column) -> ToTopic:
        schema, array = column.schema, column.values
        if pa.types.is_string(array.type) or pa.types.is_null(array.type):
            return ToTopic(array.cast(pa.binary()))
        if (pa.types.is_integer(array.type) and (schema is None or schema.name is None)) or pa.types.is_boolean(
            array.type
        ):
            return ToTopic(array.cast(pa.string()).cast(pa.binary()))
        texts = [None if value is None else value_texts.text_of(schema, value).encode() for value in array.to_pylist()]
        return ToTopic(pa.array(texts, pa.binary()))


def _obvious_texts(payloads: pa.Array) -> NDArray[np.bool_]:
    """Those that no rule makes anything else of, such as identifiers of traces. The others are parsed one by one."""
    try:
        texts = payloads.cast(pa.string())
    except pa.ArrowInvalid:
        return np.zeros(len(payloads), np.bool_)
    is_text = pc.and_(pc.match_substring_regex(texts, _TEXT), pc.invert(pc.match_substring_regex(texts, _LITERAL)))
    return np.asarray(pc.fill_null(is_text, False))


def _parsed(payload: bytes | None) -> tuple[Schema | None, pa.Array]:
    """The schema, and an array with the value."""
    if payload is None:
        return None, pa.nulls(1)
    text = decode_utf8(payload)
    schema, value = values.parse(text)
    if schema is None:
        return None, pa.nulls(1)
    try:
        return schema, _array(schema, value)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return schemas.STRING, pa.array([text], pa.string())


def _array(schema: Schema, value: Any) -> pa.Array:
    if schema.type is schemas.Type.ARRAY and schema.value_schema is None and value:
        # Elements that have no schema in common keep their own kinds.
        return sort_by_shape([value])[0].array
    return pa.array([value], schema.arrow_type)

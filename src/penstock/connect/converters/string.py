"""StringConverter: text in an encoding, and `toString()` of everything else.

Bytes that are no text in the encoding become U+FFFD, and characters that the encoding lacks become `?`, as in Java.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from penstock.connect.config.definition import ConfigDef, ConfigException, ConfigKey, ConfigType, Importance, Width
from penstock.connect.converters.converter import ConvertedGroup, Converter, FromTopic, ToTopic
from penstock.connect.converters.header_adapter import AdaptedHeaderConverter
from penstock.connect.converters.properties import CONVERTER_DEFINITION, parsed
from penstock.connect.data.java_objects import decode_utf8
from penstock.connect.data.java_texts import java_texts
from penstock.connect.data.records import Column
from penstock.connect.data.schema import STRING

OPTIONAL_STRING: Final = replace(STRING, is_optional=True)
_ENCODING: Final = "converter.encoding"
_UTF_8: Final = "utf-8"


class StringConverter(Converter):
    definition = CONVERTER_DEFINITION + ConfigDef(
        (
            ConfigKey(
                _ENCODING,
                ConfigType.STRING,
                "UTF-8",
                Importance.HIGH,
                "The encoding of texts, such as UTF-8 or ISO-8859-1.",
                width=Width.MEDIUM,
                display_name="Encoding",
            ),
        )
    )

    def __init__(self) -> None:
        self._encoding = _UTF_8

    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        name = parsed(self.definition, config, is_key=is_key)[_ENCODING]
        try:
            self._encoding = codecs.lookup(name).name
        except LookupError:
            raise ConfigException(f"Unsupported encoding {name}", _ENCODING) from None

    def to_connect(self, topics: pa.Array, payloads: pa.Array) -> FromTopic:
        if not len(payloads):
            return FromTopic(())
        rows = pa.array(np.arange(len(payloads)))
        return FromTopic((ConvertedGroup(rows, Column(OPTIONAL_STRING, self._texts(payloads))),))

    def _texts(self, payloads: pa.Array) -> pa.Array:
        if self._encoding == _UTF_8:
            try:
                return payloads.cast(pa.string())
            except pa.ArrowInvalid:
                pass  # some bytes are no UTF-8
            return pa.array([None if each is None else decode_utf8(each) for each in payloads.to_pylist()], pa.string())
        texts = [None if each is None else each.decode(self._encoding, "replace") for each in payloads.to_pylist()]
        return pa.array(texts, pa.string())

    def from_connect(self, topics: pa.Array, column: Column) -> ToTopic:
        texts = java_texts(column.schema, column.values)
        if self._encoding == _UTF_8:
            return ToTopic(texts.cast(pa.binary()))
        payloads = [None if each is None else each.encode(self._encoding, "replace") for each in texts.to_pylist()]
        return ToTopic(pa.array(payloads, pa.binary()))


class StringHeaderConverter(AdaptedHeaderConverter):
    kind = StringConverter

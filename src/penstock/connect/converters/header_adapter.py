"""Converters of values as converters of headers: Kafka's implement both, and do not look at names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import pyarrow as pa

from penstock.connect.converters.converter import Converter, FromTopic, HeaderConverter, ToTopic
from penstock.connect.data.records import Column


class AdaptedHeaderConverter(HeaderConverter):
    """A subclass names the converter."""

    kind: ClassVar[type[Converter]]

    def __init__(self) -> None:
        self._converter = self.kind()
        self.definition = self._converter.definition

    def configure(self, config: Mapping[str, str]) -> None:
        self._converter.configure(config, is_key=False)

    def to_connect(self, name: str, payloads: pa.Array) -> FromTopic:
        return self._converter.to_connect(pa.nulls(len(payloads), pa.string()), payloads)

    def from_connect(self, name: str, column: Column) -> ToTopic:
        return self._converter.from_connect(pa.nulls(len(column.values), pa.string()), column)

"""What a converter is: the bytes of a topic to columns, and back.

Kafka Connect's converters are known by their Java class names; `kinds.py` lists them. A converter works on all keys or
all values of a batch at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from penstock.connect.config.definition import ConfigDef
from penstock.connect.data.records import Column, Failure


@dataclass(frozen=True, slots=True)
class ConvertedGroup:
    """Records of one schema. `rows` (int64) are indices into the batch that was converted."""

    rows: pa.Array
    column: Column


@dataclass(frozen=True, slots=True)
class FromTopic:
    groups: Sequence[ConvertedGroup]
    failures: Sequence[Failure] = ()


@dataclass(frozen=True, slots=True)
class ToTopic:
    """`payloads` (binary, null for no payload) has a row for each of the column; rows that failed are null there.

    `rows` of a failure are indices into the column.
    """

    payloads: pa.Array
    failures: Sequence[Failure] = ()


class Converter(ABC):
    """Picklable: made in the worker, used in tasks."""

    definition: ConfigDef

    @abstractmethod
    def configure(self, config: Mapping[str, str], *, is_key: bool) -> None:
        """`config` without the prefix. Raises ConfigException."""

    @abstractmethod
    def to_connect(self, topics: pa.Array, payloads: pa.Array) -> FromTopic:
        """`payloads` is binary; null is a tombstone, which most converters make null of."""

    @abstractmethod
    def from_connect(self, topics: pa.Array, column: Column) -> ToTopic: ...


class HeaderConverter(ABC):
    """A converter of headers, whose names matter instead of the topic's."""

    definition: ConfigDef

    @abstractmethod
    def configure(self, config: Mapping[str, str]) -> None: ...

    @abstractmethod
    def to_connect(self, name: str, payloads: pa.Array) -> FromTopic: ...

    @abstractmethod
    def from_connect(self, name: str, column: Column) -> ToTopic: ...

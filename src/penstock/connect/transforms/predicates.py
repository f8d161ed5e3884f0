"""The predicates: whether a record has a header, is a tombstone, or is of a topic that matches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from penstock.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import non_empty, parse
from penstock.connect.data.records import RecordGroup
from penstock.connect.transforms.java_regex import compile_java
from penstock.connect.transforms.properties import regex
from penstock.connect.transforms.transform import Predicate


class HasHeaderKey(Predicate):
    definition = ConfigDef(
        (
            ConfigKey(
                "name",
                ConfigType.STRING,
                importance=Importance.MEDIUM,
                doc="The name of the header.",
                validator=non_empty,
            ),
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        self._name: str = parse(self.definition, config)["name"]

    def test(self, group: RecordGroup) -> pa.Array:
        has_header = any(name == self._name for name, _column in group.headers)
        return pa.repeat(pa.scalar(has_header), len(group))


class RecordIsTombstone(Predicate):
    definition = ConfigDef()

    def configure(self, config: Mapping[str, str]) -> None:
        """It has no properties."""

    def test(self, group: RecordGroup) -> pa.Array:
        return group.value.values.is_null()


def _check_pattern(name: str, value: Any) -> None:
    non_empty(name, value)
    regex(name, value)


class TopicNameMatches(Predicate):
    definition = ConfigDef(
        (
            ConfigKey(
                "pattern",
                ConfigType.STRING,
                importance=Importance.MEDIUM,
                doc="A Java regular expression that the whole name of the record's topic has to match.",
                validator=_check_pattern,
            ),
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        self._pattern = compile_java(parse(self.definition, config)["pattern"])

    def test(self, group: RecordGroup) -> pa.Array:
        encoded = group.topic.dictionary_encode()
        matches = [self._pattern.fullmatch(topic) is not None for topic in encoded.dictionary.to_pylist()]
        return pa.array(matches, pa.bool_()).take(encoded.indices)

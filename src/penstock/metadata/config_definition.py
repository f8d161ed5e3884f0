"""The definition of a configuration name: its type, default and allowed values, and the parser of its text.

Must not know: topics, brokers, where a value came from. The tables of names (`topic_config_definitions`,
`broker_config_definitions`) and everything that resolves a value are built on this module.

Invariant: a value that Apache Kafka 4.x refuses for a name is refused here too. The text of an accepted value is never
rewritten: DescribeConfigs shows it as it was set.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from enum import IntEnum
from typing import Final, NamedTuple

ConfigValue = bool | int | float | str | tuple[str, ...] | None

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1


class ConfigError(Exception):
    """A configuration that cannot be used. The message is one line that names the key and the remedy."""


class ConfigType(IntEnum):
    """The numbers are those of DescribeConfigs' `config_type`."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class DynamicScope(IntEnum):
    """Whether a broker setting may change while the broker runs, and for whom."""

    READ_ONLY = 0
    PER_BROKER = 1
    CLUSTER_WIDE = 2


_INTEGER_RANGES: Final = {
    ConfigType.INT: (-(2**31), INT_MAX),
    ConfigType.SHORT: (-(2**15), 2**15 - 1),
    ConfigType.LONG: (-(2**63), LONG_MAX),
}
# Java's parsers take a sign and digits; Python's int() would also take "1_000" and digits of other scripts.
_INTEGER_TEXT: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DOUBLE_TEXT: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_THROTTLED_REPLICAS_TEXT: Final = re.compile(r"\*|[0-9]+:[0-9]+(\s*,\s*[0-9]+:[0-9]+)*|", re.ASCII)


class ConfigDefinition(NamedTuple):
    """One known name. `default` is text, as a user would write it; None means that there is no value unless set."""

    name: str
    type: ConfigType
    default: str | None
    doc: str
    minimum: float | None = None
    maximum: float | None = None
    also_allowed: int | None = None
    choices: tuple[str, ...] | None = None
    choices_ignore_case: bool = False
    throttled_replicas: bool = False
    internal: bool = False
    scope: DynamicScope = DynamicScope.READ_ONLY
    per_listener: bool = False
    """Whether a listener can have a value of its own: `listener.name.<name>.<setting>`."""
    has_effect: bool = True
    """False where this version stores and describes the setting, as Kafka's clients expect, and does nothing else."""

    @property
    def sensitive(self) -> bool:
        return self.type is ConfigType.PASSWORD

    def parse(self, text: str) -> ConfigValue:
        """The value of `text`. Raises ConfigError with the key and the accepted values."""
        text = text.strip()
        value: ConfigValue
        if self.type is ConfigType.BOOLEAN:
            value = self._parse_boolean(text)
        elif self.type in _INTEGER_RANGES:
            value = self._parse_integer(text)
        elif self.type is ConfigType.DOUBLE:
            value = self._parse_double(text)
        elif self.type is ConfigType.LIST:
            value = self._parse_list(text)
        else:
            value = self._parse_string(text)
        return value

    def default_value(self) -> ConfigValue:
        return None if self.default is None else self.parse(self.default)

    def _refuse(self, text: str, expected: str) -> ConfigError:
        shown = "the value given" if self.sensitive else repr(text)
        return ConfigError(f"{self.name}: {shown} is not accepted; expected {expected}")

    def _parse_boolean(self, text: str) -> bool:
        lowered = text.lower()
        if lowered not in ("true", "false"):
            raise self._refuse(text, "true or false")
        return lowered == "true"

    def _parse_integer(self, text: str) -> int:
        lowest, highest = _INTEGER_RANGES[self.type]
        # More than 20 characters is out of every range; int() is quadratic in the digits it is given.
        if len(text) > 20 or not _INTEGER_TEXT.fullmatch(text) or not lowest <= int(text) <= highest:
            raise self._refuse(text, f"an integer from {lowest} to {highest}")
        value = int(text)
        self._check_range(text, value)
        return value

    def _parse_double(self, text: str) -> float:
        if not _DOUBLE_TEXT.fullmatch(text):
            raise self._refuse(text, "a number")
        value = float(text)
        self._check_range(text, value)
        return value

    def _check_range(self, text: str, value: float) -> None:
        if value == self.also_allowed:
            return
        too_small = self.minimum is not None and value < self.minimum
        too_large = self.maximum is not None and value > self.maximum
        if too_small or too_large:
            raise self._refuse(text, self.accepted_range())

    def accepted_range(self) -> str:
        """The range in words, for error messages and documentation; empty where every value is accepted."""
        if self.choices is not None:
            return f"one of {', '.join(self.choices)}"
        bounds = ""
        if self.minimum is not None and self.maximum is not None:
            bounds = f"a value from {self.minimum} to {self.maximum}"
        elif self.minimum is not None:
            bounds = f"a value of at least {self.minimum}"
        if self.also_allowed is not None:
            bounds += f", or {self.also_allowed}"
        return bounds

    def _parse_list(self, text: str) -> tuple[str, ...]:
        if self.throttled_replicas and not _THROTTLED_REPLICAS_TEXT.fullmatch(text):
            raise self._refuse(text, "* or a list of partition:broker pairs")
        if not text:
            return ()
        items = tuple(item.strip() for item in text.split(","))
        if "" in items:
            raise self._refuse(text, "a comma-separated list without empty entries")
        for item in items:
            self._check_choice(item)
        return items

    def _parse_string(self, text: str) -> str:
        self._check_choice(text)
        return text

    def _check_choice(self, text: str) -> None:
        if self.choices is None:
            return
        wanted = text.upper() if self.choices_ignore_case else text
        if wanted not in self.choices:
            raise self._refuse(text, self.accepted_range())


def table(definitions: Iterable[ConfigDefinition]) -> dict[str, ConfigDefinition]:
    """Definitions by name."""
    return {definition.name: definition for definition in definitions}


def names_without_effect(
    names: Iterable[str], definitions: Mapping[str, ConfigDefinition], others: Container[str] = ()
) -> list[str]:
    """Those of the names that this version stores without effect; `others` are accepted without a definition."""
    return [name for name in names if name in others or (name in definitions and not definitions[name].has_effect)]


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """The known name that is nearest to a misspelt one."""
    from difflib import get_close_matches

    # difflib compares with every known name, in time that grows with the product of both lengths: names that
    # are longer than any known one are cut, so that a peer cannot buy seconds of work with one long name.
    matches = get_close_matches(name[:100].lower().replace("_", "."), list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def unknown_name(kind: str, name: str, known: Iterable[str]) -> ConfigError:
    """The error for an unknown name."""
    shown = name if len(name) <= 100 else name[:100] + "..."
    nearest = nearest_name(name, known)
    remedy = f"did you mean {nearest}?" if nearest else "remove it"
    return ConfigError(f"{shown!r} is not a known {kind} configuration; {remedy}")


def definition_of(kind: str, name: str, definitions: Mapping[str, ConfigDefinition]) -> ConfigDefinition:
    """Looks a name up, or raises the error that suggests the nearest one."""
    definition = definitions.get(name)
    if definition is None:
        raise unknown_name(kind, name, definitions)
    return definition

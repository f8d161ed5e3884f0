"""Definitions of properties, as Kafka's ConfigDef has them: type, default, validator, importance, group, dependents.

Kafka Connect's REST API shows them (`PUT /connector-plugins/NAME/config/validate`), so names, types, defaults and
orders are Kafka's; the texts are ours. Parsing is strict as Kafka's is: a value of the wrong type is an error that
names the property.

Owns what a property is and how its text is parsed. It must not know connectors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final


class ConfigException(Exception):
    """A property is missing or wrong. The text is Kafka's: `Invalid value X for configuration NAME: why`."""

    def __init__(self, message: str, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class ConfigType(Enum):
    BOOLEAN = "BOOLEAN"
    STRING = "STRING"
    INT = "INT"
    SHORT = "SHORT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"  # noqa: S105 (a type)


class Importance(Enum):
    HIGH = "HIGH"
    MEDIUM = "MEDIUM"
    LOW = "LOW"


class Width(Enum):
    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


REQUIRED: Final = object()
"""The default of a property that must be given."""

Validator = Callable[[str, Any], None]
"""Takes name and parsed value; raises ConfigException."""

Recommender = Callable[[str, Mapping[str, Any]], Sequence[Any]]


@dataclass(frozen=True, slots=True)
class ConfigKey:
    name: str
    type: ConfigType
    default: Any = REQUIRED
    importance: Importance = Importance.MEDIUM
    doc: str = ""
    validator: Validator | None = None
    group: str | None = None
    order_in_group: int = -1
    width: Width = Width.NONE
    display_name: str | None = None
    dependents: tuple[str, ...] = ()
    recommender: Recommender | None = None
    is_internal: bool = False

    @property
    def is_required(self) -> bool:
        return self.default is REQUIRED


@dataclass(frozen=True)
class ConfigDef:
    """Properties in the order of their definition."""

    keys: tuple[ConfigKey, ...] = field(default=())

    def __post_init__(self) -> None:
        names = [key.name for key in self.keys]
        assert len(set(names)) == len(names), f"a property is defined twice: {names}"

    def __add__(self, other: ConfigDef) -> ConfigDef:
        return ConfigDef((*self.keys, *other.keys))

    def key(self, name: str) -> ConfigKey | None:
        return next((key for key in self.keys if key.name == name), None)

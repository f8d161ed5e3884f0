"""Texts of properties to values, with Kafka's rules and Kafka's messages.

Owns parsing and the usual validators. `parse` is for code that needs values, and raises at the first mistake;
validation of a whole configuration, which collects all mistakes, is in `validation.py`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final

from penstock.connect.config.definition import REQUIRED, ConfigDef, ConfigException, ConfigKey, ConfigType, Validator

_RANGES: Final = {
    ConfigType.INT: (-(2**31), 2**31 - 1, "int"),
    ConfigType.SHORT: (-(2**15), 2**15 - 1, "short"),
    ConfigType.LONG: (-(2**63), 2**63 - 1, "long"),
}
_WHOLE_NUMBER: Final = re.compile(r"[+-]?\d+")
_COMMA: Final = re.compile(r"\s*,\s*")


def invalid(name: str, value: object, why: str = "") -> ConfigException:
    return ConfigException(f"Invalid value {value} for configuration {name}" + (f": {why}" if why else ""), name)


def parse_value(key: ConfigKey, text: str | None) -> Any:
    """Raises ConfigException. None stays None, unless the type forbids it."""
    if text is None:
        return None
    trimmed = text.strip()
    match key.type:
        case ConfigType.BOOLEAN:
            if trimmed.lower() not in ("true", "false"):
                raise invalid(key.name, text, "Expected value to be either true or false")
            return trimmed.lower() == "true"
        case ConfigType.STRING | ConfigType.CLASS:
            return trimmed
        case ConfigType.PASSWORD:
            return text
        case ConfigType.LIST:
            return _COMMA.split(trimmed) if trimmed else []
        case ConfigType.DOUBLE:
            try:
                number = float(trimmed)
            except ValueError:
                raise invalid(key.name, text, "Not a number of type DOUBLE") from None
            if math.isnan(number) and trimmed != "NaN":
                raise invalid(key.name, text, "Not a number of type DOUBLE")
            return number
    lowest, highest, _java = _RANGES[key.type]
    if not _WHOLE_NUMBER.fullmatch(trimmed) or not lowest <= int(trimmed) <= highest:
        raise invalid(key.name, text, f"Not a number of type {key.type.value}")
    return int(trimmed)


def parse(definition: ConfigDef, config: Mapping[str, str]) -> dict[str, Any]:
    """Values of all properties that are defined, with their defaults. Raises ConfigException."""
    values = {}
    for key in definition.keys:
        if key.name in config:
            value = parse_value(key, config[key.name])
        elif key.default is REQUIRED:
            raise ConfigException(f'Missing required configuration "{key.name}" which has no default value.', key.name)
        else:
            value = parse_value(key, key.default) if isinstance(key.default, str) else key.default
        if key.validator is not None:
            key.validator(key.name, value)
        values[key.name] = value
    return values


def at_least(lowest: float) -> Validator:
    def check(name: str, value: Any) -> None:
        if value is None:
            raise invalid(name, "null", "Value must be non-null")
        if value < lowest:
            raise invalid(name, value, f"Value must be at least {lowest}")

    return check


def between(lowest: float, highest: float) -> Validator:
    def check(name: str, value: Any) -> None:
        at_least(lowest)(name, value)
        if value > highest:
            raise invalid(name, value, f"Value must be no more than {highest}")

    return check


def one_of(*allowed: str, ignore_case: bool = False) -> Validator:
    known = {each.lower() for each in allowed} if ignore_case else set(allowed)

    def check(name: str, value: Any) -> None:
        if (value.lower() if ignore_case and isinstance(value, str) else value) not in known:
            insensitive = "(case insensitive) " if ignore_case else ""
            raise invalid(name, value, f"String must be one of {insensitive}: {', '.join(allowed)}".replace(" :", ":"))

    return check


def non_empty(name: str, value: Any) -> None:
    if isinstance(value, str) and not value:
        raise invalid(name, "", "String must be non-empty")

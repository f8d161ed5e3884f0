"""Typed values out of the text that Spark hands over as options.

Owns the errors about a value, one line with the option's name and what it may be. It must never know what an option is
for; the names are told by the caller as a person writes them, and looked up without regard to case.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from penstock.pipeline.topics.errors import InvalidOption

KAFKA_PREFIX: Final = "kafka."

_MILLISECONDS_OF_UNIT: Final = {
    "us": 0.001,
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


class OptionValues:
    """The options of one reader or writer, looked up without regard to case."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): str(value) for name, value in options.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def names(self) -> list[str]:
        return sorted(self._values)

    def text(self, name: str) -> str | None:
        value = self._values.get(name.lower())
        return None if value is None else value.strip()

    def boolean(self, name: str, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in ("true", "false"):
            raise InvalidOption(f"{name}: {value!r} is neither true nor false")
        return value.lower() == "true"

    def integer(self, name: str, default: int | None = None, *, at_least: int = 0) -> int | None:
        value = self.text(name)
        if value is None:
            return default
        try:
            number = int(value)
        except ValueError:
            raise InvalidOption(f"{name}: {value!r} is not a whole number") from None
        if number < at_least:
            raise InvalidOption(
                f"{name} must be positive" if at_least == 1 else f"{name}: {number} is less than {at_least}"
            )
        return number

    def duration_ms(self, name: str, default: int) -> int:
        """A number with a unit as Spark writes them (15m, 10s, 500ms), or of milliseconds."""
        value = self.text(name)
        if value is None:
            return default
        match = re.fullmatch(r"(\d+)\s*([a-z]*)", value.lower())
        unit = match[2] or "ms" if match else ""
        if match is None or unit not in _MILLISECONDS_OF_UNIT:
            raise InvalidOption(f"{name}: {value!r} is not a time; say for example 15m, 10s or 500ms")
        return int(int(match[1]) * _MILLISECONDS_OF_UNIT[unit])

    def json_object(self, name: str, example: str) -> dict[str, Any] | None:
        value = self.text(name)
        if value is None:
            return None
        try:
            parsed = json.loads(value)
        except ValueError:
            parsed = None
        if not isinstance(parsed, dict):
            raise InvalidOption(f"{name}: expected e.g. {example}, got {value}")
        return parsed

    def kafka_settings(self) -> dict[str, str]:
        """The `kafka.*` options without their prefix. Their values may be secrets."""
        return {
            name.removeprefix(KAFKA_PREFIX): value
            for name, value in self._values.items()
            if name.startswith(KAFKA_PREFIX)
        }

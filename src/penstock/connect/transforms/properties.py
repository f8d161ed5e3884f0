"""Properties and validators that several transforms share."""

from __future__ import annotations

import re
from typing import Any, Final

from penstock.connect.config.definition import ConfigException, ConfigKey, ConfigType, Importance, Validator
from penstock.connect.config.parsing import invalid
from penstock.connect.transforms.java_regex import compile_java

REPLACE_NULL_WITH_DEFAULT: Final = ConfigKey(
    "replace.null.with.default",
    ConfigType.BOOLEAN,
    default=True,
    importance=Importance.MEDIUM,
    doc="If true, a field that is null and has a default value gets the default. If false, it stays null.",
)


def names(*, allow_empty: bool) -> Validator:
    """A list without empty entries. Duplicates are removed with a warning in Kafka, so they are no mistake."""

    def check(name: str, value: Any) -> None:
        if value is None:
            raise ConfigException(f"Configuration '{name}' values must not be null.", name)
        if not value and not allow_empty:
            raise ConfigException(
                f"Configuration '{name}' must not be empty. Valid values include: any non-empty value", name
            )
        if "" in value:
            raise ConfigException(f"Configuration '{name}' values must not be empty.", name)

    return check


def non_empty_list(name: str, value: Any) -> None:
    if not value:
        raise invalid(name, "null" if value is None else "[]", "Empty list")


def non_null(name: str, value: Any) -> None:
    if value is None:
        raise invalid(name, "null", "entry must be non null")


def list_text(values: list[str]) -> str:
    """As Java prints a list."""
    return f"[{', '.join(values)}]"


def regex(name: str, value: Any) -> None:
    try:
        compile_java(value)
    except re.error as error:
        raise invalid(name, value, f"Invalid regex: {error}") from None

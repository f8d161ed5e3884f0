"""What a check of a configuration answers, in the JSON of Kafka Connect's REST API.

Owns the form. How the check comes to its results is in `validation.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from penstock.connect.config.definition import ConfigKey, ConfigType
from penstock.connect.config.parsing import parse_value

HIDDEN: Final = "[hidden]"


@dataclass(slots=True)
class ConfigValue:
    """What a configuration says about one property, and what is wrong with it."""

    name: str
    value: Any = None
    recommended: Sequence[Any] = ()
    errors: list[str] = field(default_factory=list)
    is_visible: bool = True

    def as_json(self, key: ConfigKey | None) -> dict[str, Any]:
        type_ = None if key is None else key.type
        return {
            "name": self.name,
            "value": as_text(type_, self.value),
            "recommended_values": [as_text(type_, each) for each in self.recommended],
            "errors": self.errors,
            "visible": self.is_visible,
        }


@dataclass(frozen=True, slots=True)
class Validation:
    """`entries` are in the order of the answer; the key is None where a property has no definition."""

    name: str
    entries: Sequence[tuple[ConfigKey | None, ConfigValue]]
    warnings: Sequence[str] = ()

    @property
    def errors(self) -> list[str]:
        return [error for _key, value in self.entries for error in value.errors]

    @property
    def groups(self) -> list[str]:
        return list(dict.fromkeys(key.group for key, _value in self.entries if key is not None and key.group))

    def as_json(self) -> dict[str, Any]:
        answer: dict[str, Any] = {
            "name": self.name,
            "error_count": len(self.errors),
            "groups": self.groups,
            "configs": [
                {"definition": None if key is None else definition_json(key), "value": value.as_json(key)}
                for key, value in self.entries
            ],
        }
        return {**answer, "penstock.warnings": list(self.warnings)} if self.warnings else answer

    def message(self) -> str:
        """For a configuration that is refused; as Kafka Connect words it."""
        listed = "\n".join(self.errors)
        return (
            f"Connector configuration is invalid and contains the following {len(self.errors)} error(s):\n{listed}\n"
            "You can also find the above list of errors at the endpoint"
            " `/connector-plugins/{connectorType}/config/validate`"
        )


def definition_json(key: ConfigKey) -> dict[str, Any]:
    return {
        "name": key.name,
        "type": key.type.value,
        "required": key.is_required,
        "default_value": None if key.is_required else as_text(key.type, default_of(key)),
        "importance": key.importance.value,
        "documentation": key.doc,
        "group": key.group,
        "order_in_group": key.order_in_group,
        "width": key.width.value,
        "display_name": key.display_name or key.name,
        "dependents": list(key.dependents),
    }


def as_text(type_: ConfigType | None, value: Any) -> str | None:
    """As ConfigDef.convertToString: lists with commas, no spaces; passwords are hidden."""
    if value is None:
        return None
    if type_ is ConfigType.PASSWORD:
        return HIDDEN
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value)


def default_of(key: ConfigKey) -> Any:
    return parse_value(key, key.default) if isinstance(key.default, str) else key.default

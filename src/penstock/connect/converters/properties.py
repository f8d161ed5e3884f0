"""The property that all converters of Kafka have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.connect.config.definition import REQUIRED, ConfigDef, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import one_of, parse

TYPE: Final = "converter.type"

CONVERTER_DEFINITION: Final = ConfigDef(
    (
        ConfigKey(
            TYPE,
            ConfigType.STRING,
            REQUIRED,
            Importance.LOW,
            "What the converter is for: key, value or header. The worker sets it.",
            validator=one_of("key", "value", "header"),
        ),
    )
)


def parsed(definition: ConfigDef, config: Mapping[str, str], *, is_key: bool) -> dict[str, Any]:
    """The worker sets the type, whatever the configuration says. Raises ConfigException."""
    return parse(definition, {**config, TYPE: "key" if is_key else "value"})

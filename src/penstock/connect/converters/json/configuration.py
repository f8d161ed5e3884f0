"""The properties of JsonConverter."""

from __future__ import annotations

from typing import Final

from penstock.connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, Width
from penstock.connect.config.parsing import one_of
from penstock.connect.converters.properties import CONVERTER_DEFINITION

_SCHEMAS: Final = "Schemas"
_SERIALIZATION: Final = "Serialization"

DEFINITION: Final = CONVERTER_DEFINITION + ConfigDef(
    (
        ConfigKey(
            "schemas.enable",
            ConfigType.BOOLEAN,
            True,
            Importance.HIGH,
            "Whether each JSON document carries its schema beside the payload.",
            group=_SCHEMAS,
            order_in_group=0,
            width=Width.MEDIUM,
            display_name="Enable Schemas",
        ),
        ConfigKey(
            "schemas.cache.size",
            ConfigType.INT,
            1000,
            Importance.HIGH,
            "How many schemas the converter keeps parsed.",
            group=_SCHEMAS,
            order_in_group=1,
            width=Width.MEDIUM,
            display_name="Schema Cache Size",
        ),
        ConfigKey(
            "schema.content",
            ConfigType.STRING,
            None,
            Importance.HIGH,
            "A schema, as JSON, for every record of a sink; with it and schemas.enable, documents are payloads only.",
            group=_SCHEMAS,
            order_in_group=2,
            width=Width.MEDIUM,
            display_name="Schema Content",
        ),
        ConfigKey(
            "decimal.format",
            ConfigType.STRING,
            "BASE64",
            Importance.LOW,
            "How decimals are written: BASE64 (their bytes) or NUMERIC (a number).",
            validator=one_of("BASE64", "NUMERIC", ignore_case=True),
            group=_SERIALIZATION,
            order_in_group=0,
            width=Width.MEDIUM,
            display_name="Decimal Format",
        ),
        ConfigKey(
            "replace.null.with.default",
            ConfigType.BOOLEAN,
            True,
            Importance.LOW,
            "Whether a null becomes the default value of its field, if the field has one.",
            group=_SERIALIZATION,
            order_in_group=1,
            width=Width.MEDIUM,
            display_name="Replace null with default",
        ),
    )
)

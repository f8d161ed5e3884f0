"""`topic.creation.*` of a source connector: settings of the topics that it creates (KIP-158).

Owns the definitions. Kafka Connect checks these properties when the connector starts; here a mistake is found before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from penstock.connect.config.connector_config import TOPIC_CREATION_GROUP, regular_expression
from penstock.connect.config.definition import ConfigException, ConfigKey, ConfigType, Importance, Width
from penstock.connect.config.parsing import parse_value

PREFIX: Final = "topic.creation."
DEFAULT_GROUP: Final = "default"
_GROUPS: Final = "topic.creation.groups"
_SETTINGS: Final = ("include", "exclude", "replication.factor", "partitions")


def topic_creation_keys(config: Mapping[str, str]) -> Sequence[ConfigKey]:
    """Definitions for the groups of a configuration; none if it creates topics with the broker's settings."""
    used = [name for name in config if name.startswith(PREFIX) and name != _GROUPS]
    if not used:
        return ()
    declared = parse_value(ConfigKey(_GROUPS, ConfigType.LIST), config.get(_GROUPS)) or []
    keys: list[ConfigKey] = []
    for group in dict.fromkeys([DEFAULT_GROUP, *filter(None, declared)]):
        own = [name for name in used if name.startswith(f"{PREFIX}{group}.")]
        keys += _group_keys(group)
        known = {key.name for key in keys}
        # Everything else is a setting of the topic, which the broker knows: cleanup.policy, retention.ms.
        keys += [_topic_setting(name, group) for name in own if name not in known]
    return keys


def _group_keys(group: str) -> Sequence[ConfigKey]:
    placed: dict[str, Any] = {"group": f"{TOPIC_CREATION_GROUP}: {group}", "importance": Importance.LOW}
    is_default = group == DEFAULT_GROUP
    required: dict[str, Any] = {} if is_default else {"default": -1}
    name = f"{PREFIX}{group}."
    keys = [
        ConfigKey(
            f"{name}replication.factor", ConfigType.SHORT, doc="Of new topics; -1: the broker's default.",
            validator=_minus_one_or_positive, order_in_group=1, width=Width.LONG, **required, **placed,
        ),
        ConfigKey(
            f"{name}partitions", ConfigType.INT, doc="Of new topics; -1: the broker's default.",
            validator=_minus_one_or_positive, order_in_group=2, width=Width.MEDIUM, **required, **placed,
        ),
    ]  # fmt: skip
    if not is_default:
        keys += [
            ConfigKey(
                f"{name}include", ConfigType.LIST, doc="Expressions for the topics of this group.", width=Width.LONG,
                validator=_regular_expressions, order_in_group=3, **placed,
            ),
            ConfigKey(
                f"{name}exclude", ConfigType.LIST, "", doc="Expressions for topics outside it.", width=Width.LONG,
                validator=_regular_expressions, order_in_group=4, **placed,
            ),
        ]  # fmt: skip
    return keys


def _topic_setting(name: str, group: str) -> ConfigKey:
    return ConfigKey(
        name, ConfigType.STRING, None, Importance.LOW, "A setting of new topics.",
        group=f"{TOPIC_CREATION_GROUP}: {group}",
    )  # fmt: skip


def _minus_one_or_positive(name: str, value: Any) -> None:
    if value is not None and (value == 0 or value < -1):
        raise ConfigException(
            f"Invalid value {value} for configuration {name}: Value must be larger than 0, or -1 for the broker's"
            " default",
            name,
        )


def _regular_expressions(name: str, value: Any) -> None:
    for each in value or ():
        regular_expression(name, each)

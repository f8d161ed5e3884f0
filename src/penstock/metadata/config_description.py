"""Configurations as DescribeConfigs shows them: each value with its source and what it overrides.

Owns the content of the rows. The handler selects them and encodes them.

Invariant: the value of a sensitive setting leaves this module as None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.metadata.broker_config_definitions import BROKER_CONFIGS
from penstock.metadata.config_definition import ConfigDefinition, ConfigValue, DynamicScope
from penstock.metadata.config_source import BrokerLayers, ConfigSource
from penstock.metadata.topic_config import inherited_values
from penstock.metadata.topic_config_definitions import TOPIC_CONFIGS


@dataclass(frozen=True, slots=True)
class ConfigSynonym:
    """A source that sets the value. The first synonym of a row is the one in effect."""

    name: str
    value: str | None
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class ConfigRow:
    definition: ConfigDefinition
    value: str | None
    source: ConfigSource
    read_only: bool
    synonyms: tuple[ConfigSynonym, ...]

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT


def describe_topic(overrides: Mapping[str, str], layers: BrokerLayers) -> list[ConfigRow]:
    """A row for every topic setting, overridden or not."""
    return [_topic_row(definition, overrides, layers) for definition in TOPIC_CONFIGS.values() if _shown(definition)]


def describe_broker(layers: BrokerLayers) -> list[ConfigRow]:
    """A row for every broker setting, with its effective value."""
    return [_broker_row(definition, layers) for definition in BROKER_CONFIGS.values() if _shown(definition)]


def describe_cluster_default(cluster_wide: Mapping[str, str]) -> list[ConfigRow]:
    """Rows for the settings that were changed for all brokers at run time, and no others."""
    layers = BrokerLayers(cluster_wide=cluster_wide)
    return [_broker_row(BROKER_CONFIGS[name], layers) for name in sorted(cluster_wide) if name in BROKER_CONFIGS]


def config_text(value: ConfigValue) -> str | None:
    """A value as Kafka writes it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value)


def _shown(definition: ConfigDefinition) -> bool:
    return not definition.internal


def _topic_row(definition: ConfigDefinition, overrides: Mapping[str, str], layers: BrokerLayers) -> ConfigRow:
    inherited = inherited_values(definition.name, layers)
    synonyms = [ConfigSynonym(found.name, found.text, found.source) for found in inherited]
    if definition.name in overrides:
        value: str | None = overrides[definition.name]
        synonyms.insert(0, ConfigSynonym(definition.name, value, ConfigSource.TOPIC))
    else:
        value = config_text(inherited[0].value) if inherited else None
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    return ConfigRow(definition, value, source, read_only=False, synonyms=tuple(synonyms))


def _broker_row(definition: ConfigDefinition, layers: BrokerLayers) -> ConfigRow:
    name = definition.name
    found = [(values[name], source) for source, values in layers if name in values]
    if definition.default is not None:
        found.append((definition.default, ConfigSource.DEFAULT))
    hide = definition.sensitive
    synonyms = tuple(ConfigSynonym(name, None if hide else text, source) for text, source in found)
    return ConfigRow(
        definition,
        value=synonyms[0].value if synonyms else None,
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        read_only=definition.scope is DynamicScope.READ_ONLY,
        synonyms=synonyms,
    )

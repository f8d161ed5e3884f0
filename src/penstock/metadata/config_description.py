"""Configurations as DescribeConfigs shows them: each value with its source and what it overrides.

Owns the content of the rows. The handler selects them and encodes them.

Invariant: the value of a sensitive setting leaves this module as None.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import dropwhile
from typing import Final

from penstock.metadata.broker_config_definitions import BROKER_CONFIGS
from penstock.metadata.config_definition import ConfigDefinition, ConfigType, ConfigValue, DynamicScope
from penstock.metadata.config_source import BrokerLayers, ConfigSource
from penstock.metadata.group_config_definitions import BROKER_SETTINGS, CLIENT_METRICS_CONFIGS, GROUP_CONFIGS
from penstock.metadata.topic_config import inherited_values
from penstock.metadata.topic_config_definitions import BROKER_SYNONYMS, TOPIC_CONFIGS

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"


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
    layers = _with_cluster_minimum(layers)
    return [_topic_row(definition, overrides, layers) for definition in TOPIC_CONFIGS.values() if _shown(definition)]


def describe_broker(layers: BrokerLayers) -> list[ConfigRow]:
    """A row for every broker setting, with its effective value; settings for tools only where they are set."""
    layers = _with_cluster_minimum(layers)
    return [
        _broker_row(definition, layers)
        for definition in BROKER_CONFIGS.values()
        if _shown(definition) or layers.get(definition.name) is not None
    ]


def describe_cluster_default(cluster_wide: Mapping[str, str], static: Mapping[str, str]) -> list[ConfigRow]:
    """Rows for the settings that were changed for all brokers at run time, and no others but `min.insync.replicas`."""
    layers = _with_cluster_minimum(BrokerLayers(static=static, cluster_wide=cluster_wide))
    layers = BrokerLayers(cluster_wide=layers.cluster_wide)
    rows = [_broker_row(BROKER_CONFIGS[name], layers) for name in sorted(layers.cluster_wide) if name in BROKER_CONFIGS]
    # What a broker would fall back to is not a setting of all brokers.
    return [replace(row, synonyms=row.synonyms[:1]) for row in rows]


def describe_group(configs: Mapping[str, str], layers: BrokerLayers) -> list[ConfigRow]:
    """A row for every setting of a group. A group that does not exist has the defaults, as in Kafka."""
    rows: list[ConfigRow] = []
    for name, definition in GROUP_CONFIGS.items():
        inherited = BROKER_SETTINGS.get(name, name)
        synonyms = [ConfigSynonym(inherited, values[inherited], at) for at, values in layers if inherited in values]
        synonyms.append(ConfigSynonym(inherited, definition.default, ConfigSource.DEFAULT))
        rows.append(_own_row(definition, configs, ConfigSource.GROUP, synonyms))
    return rows


def describe_client_metrics(configs: Mapping[str, str]) -> list[ConfigRow]:
    return [
        _own_row(definition, configs, ConfigSource.CLIENT_METRICS, []) for definition in CLIENT_METRICS_CONFIGS.values()
    ]


def describe_loggers(levels: Mapping[str, str]) -> list[ConfigRow]:
    """A row for every logger of the broker, with the level that is in effect; Kafka lists no synonyms of it."""
    return [
        ConfigRow(
            ConfigDefinition(name, ConfigType.STRING, None, "The level of this logger."),
            level,
            ConfigSource.BROKER_LOGGER,
            read_only=False,
            synonyms=(),
        )
        for name, level in sorted(levels.items())
    ]


def _own_row(
    definition: ConfigDefinition, configs: Mapping[str, str], source: ConfigSource, inherited: list[ConfigSynonym]
) -> ConfigRow:
    """A setting of a resource that has one source of its own."""
    name = definition.name
    synonyms = [ConfigSynonym(name, configs[name], source), *inherited] if name in configs else inherited
    value, at = (synonyms[0].value, synonyms[0].source) if synonyms else (definition.default, ConfigSource.DEFAULT)
    return ConfigRow(definition, value, at, read_only=False, synonyms=tuple(synonyms))


def _with_cluster_minimum(layers: BrokerLayers) -> BrokerLayers:
    """As with eligible leader replicas (KIP-966): the cluster always has a `min.insync.replicas` of its own."""
    if MIN_INSYNC_REPLICAS in layers.cluster_wide:
        return layers
    text = layers.static.get(MIN_INSYNC_REPLICAS, BROKER_CONFIGS[MIN_INSYNC_REPLICAS].default or "")
    return replace(layers, cluster_wide={**layers.cluster_wide, MIN_INSYNC_REPLICAS: text})


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
    synonyms = _broker_synonyms(definition.name, layers)
    if definition.name in overrides:
        value: str | None = overrides[definition.name]
        source = ConfigSource.TOPIC
        synonyms.insert(0, ConfigSynonym(definition.name, value, source))
    else:
        value = config_text(inherited[0].value) if inherited else None
        source = inherited[0].source if inherited else ConfigSource.DEFAULT
    return ConfigRow(definition, value, source, read_only=False, synonyms=tuple(synonyms))


def _broker_synonyms(name: str, layers: BrokerLayers) -> list[ConfigSynonym]:
    """The broker's settings behind a topic's, as Kafka lists them.

    A topic's setting that no broker setting stands behind has none. Where several do, such as `log.roll.ms` and
    `log.roll.hours`, Kafka's list begins with the first of them and is empty if that one has no value.
    """
    names = [synonym.name for synonym in BROKER_SYNONYMS.get(name, ())]
    found = [ConfigSynonym(each, values[each], source) for source, values in layers for each in names if each in values]
    defaults = ((each, BROKER_CONFIGS[each].default) for each in names)
    found.extend(ConfigSynonym(each, text, ConfigSource.DEFAULT) for each, text in defaults if text is not None)
    return list(dropwhile(lambda synonym: synonym.name != names[0], found))


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

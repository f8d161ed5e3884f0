"""The effective configuration of a topic: its own overrides over the settings that it inherits from the broker.

Owns the order of precedence (topic, dynamic broker, dynamic cluster default, static broker, Kafka's default) and the
conversion of inherited values to the topic's unit. Must not know requests; `config_description.py` shows the same
resolution to DescribeConfigs.

Invariant: a field's name is its configuration's name with dots as underscores, so the table of definitions decides
everything but the field's static type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, NamedTuple

from penstock.metadata.broker_config_definitions import BROKER_CONFIGS
from penstock.metadata.config_definition import ConfigError, ConfigValue, definition_of
from penstock.metadata.config_source import BrokerLayers, ConfigSource
from penstock.metadata.topic_config_definitions import BROKER_SYNONYMS, TOPIC_CONFIGS


class InheritedValue(NamedTuple):
    """One broker setting behind a topic's setting: as it was written, and as a value in the topic's unit."""

    name: str
    text: str
    value: ConfigValue
    source: ConfigSource


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic's effective configuration. Millisecond and byte limits keep Kafka's -1 for "no limit"."""

    cleanup_policy: tuple[str, ...]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    index_interval_bytes: int
    internal_segment_bytes: int | None
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    remote_storage_enable: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool

    @classmethod
    def inherited(cls, layers: BrokerLayers) -> TopicConfig:
        """The configuration of a topic without overrides. It is the same for all topics, so callers keep it."""
        values: dict[str, Any] = {field: _inherited_value(name, layers) for field, name in _NAMES.items()}
        return cls(**values)

    def with_overrides(self, overrides: Mapping[str, str]) -> TopicConfig:
        """This configuration under a topic's own settings. Raises ConfigError for an unknown name or value.

        Accepted overrides must stay valid when the broker's own settings change. Rules that combine several settings
        are therefore checked in `validate_overrides` only.
        """
        if not overrides:
            return self
        changed: dict[str, Any] = {}
        for name, text in overrides.items():
            value = definition_of("topic", name, TOPIC_CONFIGS).parse(text)
            field = _FIELDS.get(name)
            if field is not None:
                changed[field] = value
        return replace(self, **changed)

    @property
    def compacts(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def deletes(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    @property
    def roll_bytes(self) -> int:
        """The size at which a segment rolls; tests may lower it below what `segment.bytes` allows."""
        return self.segment_bytes if self.internal_segment_bytes is None else self.internal_segment_bytes


_NAMES: Final = {field.name: field.name.replace("_", ".") for field in fields(TopicConfig)}
_FIELDS: Final = {name: field for field, name in _NAMES.items()}


def validate_overrides(overrides: Mapping[str, str], inherited: TopicConfig) -> None:
    """Raises ConfigError for the first name, value or combination that a topic cannot be given."""
    config = inherited.with_overrides(overrides)
    if config.min_compaction_lag_ms > config.max_compaction_lag_ms:
        raise ConfigError(
            f"min.compaction.lag.ms ({config.min_compaction_lag_ms}) exceeds "
            f"max.compaction.lag.ms ({config.max_compaction_lag_ms}); lower the one or raise the other"
        )
    if config.remote_storage_enable:
        raise ConfigError("remote.storage.enable: this broker has no tiered storage; leave it false")


def inherited_values(name: str, layers: BrokerLayers) -> list[InheritedValue]:
    """The values that a topic's setting falls back to, in the order of precedence; Kafka's default is the last."""
    synonyms = BROKER_SYNONYMS.get(name, ())
    found: list[InheritedValue] = []
    for source, values in layers:
        for synonym, factor in synonyms:
            if synonym in values:
                text = values[synonym]
                found.append(InheritedValue(synonym, text, _in_topic_unit(synonym, text, factor), source))
    definition = TOPIC_CONFIGS[name]
    if definition.default is not None:
        default_name = synonyms[0].name if synonyms else name
        found.append(InheritedValue(default_name, definition.default, definition.default_value(), ConfigSource.DEFAULT))
    return found


def _inherited_value(name: str, layers: BrokerLayers) -> ConfigValue:
    found = inherited_values(name, layers)
    return found[0].value if found else None


def _in_topic_unit(synonym: str, text: str, factor: int) -> ConfigValue:
    value = BROKER_CONFIGS[synonym].parse(text)
    if factor == 1 or not isinstance(value, int):
        return value
    return value * factor if value >= 0 else -1

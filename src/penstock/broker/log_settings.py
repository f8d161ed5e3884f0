"""Settings of topics as logs get them, and the warnings about those that have no effect."""

from __future__ import annotations

import logging

from penstock.core import limits
from penstock.log.config import LogConfig
from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.changes import TopicImage
from penstock.metadata.config_definition import names_without_effect
from penstock.metadata.topic_config import TopicConfig
from penstock.metadata.topic_config_definitions import TOPIC_CONFIGS
from penstock.metadata.topics import is_internal

logger = logging.getLogger(__name__)


def say_without_effect(topic: TopicImage) -> None:
    """Kafka's clients may set what this version does not do yet. The coordinators' own topics are no news."""
    unused = [] if is_internal(topic.name) else names_without_effect(topic.configs, TOPIC_CONFIGS)
    if unused:
        logger.warning("topic '%s': settings without effect in this version: %s", topic.name, ", ".join(unused))


def log_config(topic: str, config: TopicConfig, broker: BrokerConfig) -> LogConfig:
    """The settings of a log, from its topic's and its broker's configuration."""
    segment_bytes, segment_ms = config.roll_bytes, config.segment_ms
    if is_internal(topic):
        segment_bytes = min(segment_bytes, limits.COORDINATOR_SEGMENT_BYTES_MAX)
    if config.compacts:
        # As in Kafka: the active segment is never compacted, so it must be rolled before its records are overdue.
        segment_ms = min(segment_ms, config.max_compaction_lag_ms)
    return LogConfig(
        segment_bytes=segment_bytes,
        segment_ms=segment_ms,
        segment_jitter_ms=config.segment_jitter_ms,
        segment_index_bytes=config.segment_index_bytes,
        index_interval_bytes=config.index_interval_bytes,
        flush_messages=config.flush_messages,
        flush_ms=config.flush_ms,
        contiguous_offsets=not config.compacts,
        producer_id_expiration_ms=broker.producer_id_expiration_ms,
        deletes=config.deletes,
        compacts=config.compacts,
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        file_delete_delay_ms=config.file_delete_delay_ms,
        delete_retention_ms=config.delete_retention_ms,
        min_cleanable_dirty_ratio=config.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=config.min_compaction_lag_ms,
        max_compaction_lag_ms=config.max_compaction_lag_ms,
    )

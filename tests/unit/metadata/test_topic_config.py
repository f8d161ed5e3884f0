from __future__ import annotations

from dataclasses import fields

import pytest

from penstock.metadata.config_definition import ConfigError
from penstock.metadata.config_description import (
    describe_broker,
    describe_cluster_default,
    describe_group,
    describe_loggers,
    describe_topic,
)
from penstock.metadata.config_source import BrokerLayers, ConfigSource
from penstock.metadata.topic_config import TopicConfig, validate_overrides
from penstock.metadata.topic_config_definitions import TOPIC_CONFIGS

DAY_MS = 86_400_000


def test_without_any_setting_a_topic_has_kafkas_defaults() -> None:
    config = TopicConfig.inherited(BrokerLayers())
    for field in fields(config):
        name = field.name.replace("_", ".")
        assert getattr(config, field.name) == TOPIC_CONFIGS[name].default_value()


@pytest.mark.parametrize(
    ("static", "expected_ms"),
    [
        ({}, 7 * DAY_MS),
        ({"log.retention.hours": "24"}, DAY_MS),
        ({"log.retention.hours": "24", "log.retention.minutes": "2"}, 120_000),
        ({"log.retention.hours": "24", "log.retention.minutes": "2", "log.retention.ms": "3"}, 3),
        ({"log.retention.hours": "-1"}, -1),
    ],
)
def test_retention_is_inherited_in_the_finest_unit_that_is_set(static: dict[str, str], expected_ms: int) -> None:
    assert TopicConfig.inherited(BrokerLayers(static=static)).retention_ms == expected_ms


def test_the_order_of_precedence() -> None:
    name, broker_name = "max.message.bytes", "message.max.bytes"
    layers = BrokerLayers()
    assert TopicConfig.inherited(layers).max_message_bytes == 1_048_588
    layers = BrokerLayers(static={broker_name: "4"})
    assert TopicConfig.inherited(layers).max_message_bytes == 4
    layers = BrokerLayers(static={broker_name: "4"}, cluster_wide={broker_name: "3"})
    assert TopicConfig.inherited(layers).max_message_bytes == 3
    layers = BrokerLayers(static={broker_name: "4"}, cluster_wide={broker_name: "3"}, per_broker={broker_name: "2"})
    assert TopicConfig.inherited(layers).max_message_bytes == 2
    assert TopicConfig.inherited(layers).with_overrides({name: "1"}).max_message_bytes == 1


def test_a_coarser_unit_from_a_stronger_source_wins() -> None:
    layers = BrokerLayers(static={"log.roll.ms": "5"}, per_broker={"log.roll.hours": "1"})
    assert TopicConfig.inherited(layers).segment_ms == 3_600_000


def test_a_topic_without_overrides_shares_the_inherited_object() -> None:
    inherited = TopicConfig.inherited(BrokerLayers())
    assert inherited.with_overrides({}) is inherited


def test_derived_answers() -> None:
    inherited = TopicConfig.inherited(BrokerLayers())
    assert (inherited.compacts, inherited.deletes, inherited.log_append_time) == (False, True, False)
    assert inherited.roll_bytes == 1_073_741_824
    config = inherited.with_overrides(
        {
            "cleanup.policy": "compact,delete",
            "message.timestamp.type": "LogAppendTime",
            "internal.segment.bytes": "100",
            "leader.replication.throttled.replicas": "*",
        }
    )
    assert (config.compacts, config.deletes, config.log_append_time) == (True, True, True)
    assert config.roll_bytes == 100


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"retention.mss": "1"}, "did you mean retention.ms"),
        ({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"}, "lower the one or raise the other"),
        ({"remote.storage.enable": "true"}, "no tiered storage"),
        ({"follower.replication.throttled.replicas": "zero"}, "partition:broker"),
    ],
)
def test_what_a_topic_cannot_have(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        validate_overrides(overrides, TopicConfig.inherited(BrokerLayers()))


def test_overrides_that_were_accepted_stay_usable_when_the_broker_changes() -> None:
    overrides = {"min.compaction.lag.ms": "10"}
    validate_overrides(overrides, TopicConfig.inherited(BrokerLayers()))
    changed = TopicConfig.inherited(BrokerLayers(cluster_wide={"log.cleaner.max.compaction.lag.ms": "5"}))
    assert changed.with_overrides(overrides).min_compaction_lag_ms == 10


def test_a_described_topic_shows_value_source_and_synonyms() -> None:
    layers = BrokerLayers(static={"log.segment.bytes": "2000000", "log.retention.hours": "1"})
    rows = {row.name: row for row in describe_topic({"segment.bytes": "3000000"}, layers)}
    assert rows.keys() == TOPIC_CONFIGS.keys() - {"internal.segment.bytes"}

    segment_bytes = rows["segment.bytes"]
    assert (segment_bytes.value, segment_bytes.source) == ("3000000", ConfigSource.TOPIC)
    assert [(synonym.name, synonym.value, synonym.source) for synonym in segment_bytes.synonyms] == [
        ("segment.bytes", "3000000", ConfigSource.TOPIC),
        ("log.segment.bytes", "2000000", ConfigSource.STATIC_BROKER),
        ("log.segment.bytes", "1073741824", ConfigSource.DEFAULT),
    ]
    assert (rows["retention.ms"].value, rows["retention.ms"].source) == ("3600000", ConfigSource.STATIC_BROKER)
    assert rows["preallocate"].value == "false"
    assert rows["preallocate"].is_default
    assert rows["cleanup.policy"].value == "delete"
    assert not any(row.read_only for row in rows.values())


def test_a_described_broker_shows_what_can_be_changed() -> None:
    layers = BrokerLayers(static={"message.max.bytes": "5", "node.id": "3"}, cluster_wide={"message.max.bytes": "6"})
    rows = {row.name: row for row in describe_broker(layers)}
    assert (rows["message.max.bytes"].value, rows["message.max.bytes"].source) == (
        "6",
        ConfigSource.DYNAMIC_DEFAULT_BROKER,
    )
    assert len(rows["message.max.bytes"].synonyms) == 3
    assert not rows["message.max.bytes"].read_only
    assert rows["node.id"].value == "3"
    assert rows["node.id"].read_only
    assert rows["log.retention.ms"].value is None
    # A list that is not set is an empty one.
    assert (rows["ssl.cipher.suites"].value, rows["ssl.cipher.suites"].is_default) == ("", True)
    of_cluster = [row.name for row in describe_cluster_default({"message.max.bytes": "6"}, layers.static)]
    assert of_cluster == ["message.max.bytes", "min.insync.replicas"]


def test_synonyms_are_those_that_kafka_lists() -> None:
    """Of a setting of all brokers only itself, of a group's the default, of a logger's level none."""
    layers = BrokerLayers(static={"message.max.bytes": "5"})
    of_cluster = describe_cluster_default({"message.max.bytes": "6"}, layers.static)
    assert {(each.name, each.source) for row in of_cluster for each in row.synonyms} == {
        ("message.max.bytes", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        ("min.insync.replicas", ConfigSource.DYNAMIC_DEFAULT_BROKER),
    }
    of_group = {row.name: [each.name for each in row.synonyms] for row in describe_group({}, layers)}
    assert of_group["share.auto.offset.reset"] == ["share.auto.offset.reset"]
    assert of_group["consumer.session.timeout.ms"] == ["group.consumer.session.timeout.ms"]
    [root] = describe_loggers({"root": "WARN"})
    assert (root.value, root.source, root.synonyms) == ("WARN", ConfigSource.BROKER_LOGGER, ())

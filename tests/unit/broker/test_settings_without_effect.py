"""Settings that this version stores without effect are accepted, as Kafka's clients need, and named in the log."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.broker.main import _say_without_effect
from penstock.core.ids import TopicName
from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.changes import BrokerConfigChanged, TopicConfigChanged
from penstock.metadata.config_definition import ConfigError
from penstock.metadata.topics import NewTopic
from tests.unit.broker.nodes import commit_changes, make_topics, node_in


def messages(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


def test_a_start_names_those_of_the_broker(caplog: pytest.LogCaptureFixture) -> None:
    _say_without_effect(BrokerConfig.load(overrides=["num.partitions=3"]))
    assert messages(caplog) == []
    _say_without_effect(BrokerConfig.load(overrides=["num.partitions=3", "num.io.threads=4", "log.preallocate=true"]))
    assert messages(caplog) == ["settings without effect in this version: log.preallocate, num.io.threads"]


def test_a_topic_that_gets_one_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        with node_in(tmp_path) as node:
            configs = (("preallocate", "true"), ("retention.ms", "1000"))
            make_topics(node, NewTopic("orders", 1, configs=configs), NewTopic("plain", 1))
            topic = node.image.topics[TopicName("orders")]
            commit_changes(
                node,
                TopicConfigChanged(
                    topic.topic_id, {"unclean.leader.election.enable": "true", "cleanup.policy": "compact"}
                ),
            )
            node.groups.log.ensure_topic(lambda error: None)  # the coordinators' own topics are no news

    asyncio.run(scenario())
    assert messages(caplog) == [
        "topic 'orders': settings without effect in this version: preallocate",
        "topic 'orders': settings without effect in this version: unclean.leader.election.enable",
    ]


def test_a_setting_of_the_broker_is_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        with node_in(tmp_path) as node:
            commit_changes(node, BrokerConfigChanged(None, {"log.cleaner.threads": "2"}))
            commit_changes(node, BrokerConfigChanged(None, {"log.cleaner.threads": "3", "num.io.threads": "4"}))
            assert node.config.layers.cluster_wide["log.cleaner.threads"] == "3"

    asyncio.run(scenario())
    assert messages(caplog) == [
        "settings without effect in this version: log.cleaner.threads",
        "settings without effect in this version: num.io.threads",
    ]


def test_the_list_itself_cannot_be_set() -> None:
    with pytest.raises(ConfigError, match="describes this version of the broker, and cannot be set"):
        BrokerConfig.load(overrides=["penstock.topic.configs.without.effect=none"])

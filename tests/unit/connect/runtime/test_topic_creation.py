from __future__ import annotations

import pytest

from penstock.connect.config.definition import ConfigException
from penstock.connect.runtime.topic_creation import TopicCreation

CONFIG = {
    "topic.creation.groups": "compacted, large",
    "topic.creation.default.partitions": "3",
    "topic.creation.default.replication.factor": "-1",
    "topic.creation.compacted.include": "state-.*, table",
    "topic.creation.compacted.exclude": "state-old",
    "topic.creation.compacted.cleanup.policy": "compact",
    "topic.creation.large.include": ".*-large",
    "topic.creation.large.partitions": "12",
}


def test_the_first_group_that_includes_a_topic_decides() -> None:
    compacted, large, default = TopicCreation.of(CONFIG).rules
    rules = TopicCreation.of(CONFIG).rules

    def rule_of(topic: str) -> object:
        return next(rule for rule in rules if rule.applies_to(topic))

    assert rule_of("state-of-orders") == rule_of("table") == compacted
    assert rule_of("orders-large") == large
    assert rule_of("state-old") == rule_of("my-table") == default
    assert (compacted.partitions, compacted.replication_factor, compacted.configs) == (
        3,
        -1,
        {"cleanup.policy": "compact"},
    )
    assert (large.partitions, default.partitions) == (12, 3)


def test_without_rules_the_broker_creates_topics() -> None:
    assert TopicCreation.of({"topic": "orders"}).rules == ()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"topic.creation.default.partitions": "0"}, "topic.creation.default.partitions"),
        ({"topic.creation.large.partitions": "many"}, "topic.creation.large.partitions"),
        ({"topic.creation.large.include": "("}, "topic.creation.large.include"),
    ],
)
def test_a_mistake_names_its_property(change: dict[str, str], name: str) -> None:
    with pytest.raises(ConfigException) as mistake:
        TopicCreation.of({**CONFIG, **change})
    assert mistake.value.name == name


def test_rules_need_a_default() -> None:
    with pytest.raises(ConfigException, match=r"topic\.creation\.default\.partitions"):
        TopicCreation.of({"topic.creation.groups": "x", "topic.creation.x.include": ".*"})

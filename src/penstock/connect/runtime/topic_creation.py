"""Topics that do not exist yet: created by the rules of a connector (`topic.creation.*`, KIP-158), or by the broker.

Owns the rules. Without any, the broker creates topics by its own settings, if it may.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.connect.config.definition import ConfigException
from penstock.core.errors import UnknownTopic
from penstock.wire.client import WireClient
from penstock.wire.retry import UNKNOWN_TOPIC_GRACE_S

_PREFIX: Final = "topic.creation."
_DEFAULT: Final = "default"
_OF_GROUP: Final = ("include", "exclude", "partitions", "replication.factor")
_PAUSE_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class CreationRule:
    """`include` None: every topic that no other rule takes."""

    partitions: int
    replication_factor: int
    configs: Mapping[str, str] = field(default_factory=dict)
    include: Sequence[str] | None = None
    exclude: Sequence[str] = ()

    def applies_to(self, topic: str) -> bool:
        if self.include is None:
            return True
        return _matches(self.include, topic) and not _matches(self.exclude, topic)


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """Picklable. The first rule that applies to a topic decides; the default is the last."""

    rules: Sequence[CreationRule] = ()

    @classmethod
    def of(cls, config: Mapping[str, str]) -> TopicCreation:
        """Raises ConfigException."""
        if not any(name.startswith(_PREFIX) for name in config):
            return cls()
        groups = [each.strip() for each in config.get(f"{_PREFIX}groups", "").split(",") if each.strip()]
        names = [each for each in dict.fromkeys(groups) if each != _DEFAULT]
        fallback = _rule(config, _DEFAULT, None)
        return cls((*(_rule(config, name, fallback) for name in names), fallback))

    def partition_count(self, client: WireClient, topic: str) -> int:
        """Creates the topic if it does not exist. Raises UnknownTopic if that is not allowed."""
        deadline = time.monotonic() + UNKNOWN_TOPIC_GRACE_S
        rule = next((each for each in self.rules if each.applies_to(topic)), None)
        while True:
            found = client.metadata([topic], allow_auto_topic_creation=rule is None).topics.get(topic)
            if found is not None and found.partitions:
                return len(found.partitions)
            if rule is not None:
                client.create_topic(
                    topic,
                    partitions=rule.partitions,
                    replication_factor=rule.replication_factor,
                    configs=rule.configs,
                )
            if time.monotonic() > deadline:
                raise UnknownTopic(f"topic '{topic}' does not exist, and the broker does not create it")
            time.sleep(_PAUSE_S)


def _rule(config: Mapping[str, str], group: str, fallback: CreationRule | None) -> CreationRule:
    own = {
        name.removeprefix(f"{_PREFIX}{group}."): value
        for name, value in config.items()
        if name.startswith(f"{_PREFIX}{group}.")
    }
    include = None if fallback is None else _expressions(own.get("include", ""), f"{_PREFIX}{group}.include")
    return CreationRule(
        _number(own, "partitions", group, None if fallback is None else fallback.partitions),
        _number(own, "replication.factor", group, None if fallback is None else fallback.replication_factor),
        {name: value for name, value in own.items() if name not in _OF_GROUP},
        include,
        _expressions(own.get("exclude", ""), f"{_PREFIX}{group}.exclude"),
    )


def _number(own: Mapping[str, str], name: str, group: str, fallback: int | None) -> int:
    """A positive number, or -1 for the broker's default."""
    full = f"{_PREFIX}{group}.{name}"
    if name not in own:
        if fallback is None:
            raise ConfigException(f'Missing required configuration "{full}" which has no default value.', full)
        return fallback
    text = own[name].strip()
    if not re.fullmatch(r"-1|[1-9]\d*", text):
        raise ConfigException(
            f"Invalid value {text} for configuration {full}: must be positive, or -1 to use the broker's default", full
        )
    return int(text)


def _expressions(text: str, name: str) -> Sequence[str]:
    expressions = [each.strip() for each in text.split(",") if each.strip()]
    for each in expressions:
        try:
            re.compile(each)
        except re.error as mistake:
            raise ConfigException(
                f"Invalid value {text} for configuration {name}: Syntax error in regular expression: {mistake}", name
            ) from mistake
    return tuple(expressions)


def _matches(expressions: Sequence[str], topic: str) -> bool:
    return any(re.fullmatch(each, topic) for each in expressions)

"""Properties of the three mirror connectors, with MirrorMaker 2's names, defaults and types.

Owns the definitions. What a property means is in the module of its connector; `settings.py` reads those of both
clusters' clients.
"""

from __future__ import annotations

import re
from typing import Any, Final

from penstock.connect.config.definition import ConfigDef, ConfigException, ConfigKey, ConfigType, Importance
from penstock.connect.config.parsing import at_least, non_empty, one_of
from penstock.connect.connectors.mirror.replication_policy import POLICIES
from penstock.connect.transforms.java_regex import compile_java

VERSION: Final = "4.3.0"
_PACKAGE: Final = "org.apache.kafka.connect.mirror."
_BOOLEAN, _STRING, _LIST, _LONG, _INT, _SHORT, _CLASS = (
    ConfigType.BOOLEAN, ConfigType.STRING, ConfigType.LIST, ConfigType.LONG, ConfigType.INT, ConfigType.SHORT,
    ConfigType.CLASS,
)  # fmt: skip


def _expressions(name: str, value: Any) -> None:
    for each in value or ():
        try:
            compile_java(each)
        except re.error as mistake:
            raise ConfigException(
                f"Invalid value {','.join(value)} for configuration {name}: '{each}' is not a regular expression:"
                f" {mistake}",
                name,
            ) from mistake


def _replication_factor(name: str, value: Any) -> None:
    if value != -1:
        at_least(1)(name, value)


def _low(name: str, type_: ConfigType, default: Any, doc: str, validator: Any = None) -> ConfigKey:
    return ConfigKey(name, type_, default, Importance.LOW, doc, validator=validator)


def _high(name: str, type_: ConfigType, default: Any, doc: str, validator: Any = None) -> ConfigKey:
    return ConfigKey(name, type_, default, Importance.HIGH, doc, validator=validator)


def _interval(name: str, default: int, doc: str) -> ConfigKey:
    return _low(f"{name}.interval.seconds", _LONG, default, doc, at_least(0))


def _only(kind: str) -> Any:
    """A class that cannot be replaced: Java classes do not run here."""
    return one_of(f"{_PACKAGE}{kind}")


_COMMON: Final = ConfigDef(
    (
        ConfigKey("source.cluster.alias", _STRING, importance=Importance.HIGH,
                  doc="The name of the cluster that is read.", validator=non_empty),
        _high("target.cluster.alias", _STRING, "target", "The name of the cluster that is written.",
              non_empty),
        _low("enabled", _BOOLEAN, True, "Whether the connector copies anything."),
        _low("replication.policy.class", _CLASS, f"{_PACKAGE}DefaultReplicationPolicy",
             "How copies of topics are named: with the source cluster's name in front, or unchanged.",
             one_of(*POLICIES)),
        _low("replication.policy.separator", _STRING, ".",
             "What stands between the source cluster's name and the topic's.", non_empty),
        _low("replication.policy.internal.topic.separator.enabled", _BOOLEAN, True,
             "Whether the topics of checkpoints and offset syncs are named with that separator, too."),
        _low("admin.timeout.ms", _LONG, 60_000, "Without effect: requests end by request.timeout.ms.",
             at_least(1)),
    )
)  # fmt: skip

_TOPICS: Final = ConfigDef(
    (
        _high("topics", _LIST, ".*", "The topics to copy: names and regular expressions.",
              _expressions),
        _high("topics.exclude", _LIST, r"mm2.*\.internal,.*\.replica,__.*",
              "The topics not to copy, even if `topics` names them.", _expressions),
        _low("topic.filter.class", _CLASS, f"{_PACKAGE}DefaultTopicFilter",
             "What reads `topics` and `topics.exclude`; it cannot be replaced.", _only("DefaultTopicFilter")),
        _low("offset-syncs.topic.location", _STRING, "source",
             "The cluster that keeps the topic of offset syncs: source or target.", one_of("source", "target")),
        _low("consumer.poll.timeout.ms", _LONG, 1000, "The pause between two looks for records of the source cluster.",
             at_least(1)),
    )
)  # fmt: skip

SOURCE: Final = _COMMON + _TOPICS + ConfigDef(
    (
        _high("config.properties.exclude", _LIST,
              r"follower\.replication\.throttled\.replicas,leader\.replication\.throttled\.replicas,"
              r"message\.timestamp\.difference\.max\.ms,log\.message\.timestamp\.before\.max\.ms,"
              r"log\.message\.timestamp\.after\.max\.ms,message\.timestamp\.type,unclean\.leader\.election\.enable,"
              r"min\.insync\.replicas",
              "The topic settings that a copy does not take over: names and regular expressions.", _expressions),
        _low("config.property.filter.class", _CLASS, f"{_PACKAGE}DefaultConfigPropertyFilter",
             "What reads `config.properties.exclude`; it cannot be replaced.",
             _only("DefaultConfigPropertyFilter")),
        _low("replication.factor", _INT, 2, "How many replicas a new copy of a topic gets.",
             _replication_factor),
        _low("refresh.topics.enabled", _BOOLEAN, True, "Whether the connector looks for new topics and partitions."),
        _interval("refresh.topics", 600, "The seconds between two such looks."),
        _low("sync.topic.configs.enabled", _BOOLEAN, True,
             "Whether copies of topics take over later changes of settings."),
        _interval("sync.topic.configs", 600, "The seconds between two comparisons of settings."),
        _low("sync.topic.acls.enabled", _BOOLEAN, True,
             "Whether copies of topics take over ACLs, except rights to write."),
        _interval("sync.topic.acls", 600, "The seconds between two comparisons of ACLs."),
        _low("heartbeats.replication.enabled", _BOOLEAN, True,
             "Whether topics of heartbeats are copied although `topics` does not name them."),
        _low("emit.offset-syncs.enabled", _BOOLEAN, True,
             "Whether the connector notes which offset of a copy belongs to which offset of the source."),
        _low("offset-syncs.topic.replication.factor", _SHORT, 3, "How many replicas the topic of offset syncs gets.",
             _replication_factor),
        _low("offset.lag.max", _LONG, 100, "How many records may follow an offset sync before the next one is written.",
             at_least(1)),
    )
)  # fmt: skip

CHECKPOINT: Final = _COMMON + _TOPICS + ConfigDef(
    (
        _high("groups", _LIST, ".*", "The consumer groups to follow: names and regular expressions.",
              _expressions),
        _high("groups.exclude", _LIST, "console-consumer-.*,connect-.*,__.*",
              "The consumer groups not to follow, even if `groups` names them.",
              _expressions),
        _low("group.filter.class", _CLASS, f"{_PACKAGE}DefaultGroupFilter",
             "What reads `groups` and `groups.exclude`; it cannot be replaced.", _only("DefaultGroupFilter")),
        _low("refresh.groups.enabled", _BOOLEAN, True, "Whether the connector looks for new consumer groups."),
        _interval("refresh.groups", 600, "The seconds between two such looks."),
        _low("emit.checkpoints.enabled", _BOOLEAN, True,
             "Whether offsets of consumer groups are translated into checkpoints."),
        _interval("emit.checkpoints", 60, "The seconds between two checkpoints of a group."),
        _low("checkpoints.topic.replication.factor", _SHORT, 3, "How many replicas the topic of checkpoints gets.",
             _replication_factor),
        _low("sync.group.offsets.enabled", _BOOLEAN, False,
             "Whether translated offsets are committed on the target cluster for groups that have no members there."),
        _interval("sync.group.offsets", 60, "The seconds between two such commits."),
    )
)  # fmt: skip

HEARTBEAT: Final = _COMMON + ConfigDef(
    (
        _low("emit.heartbeats.enabled", _BOOLEAN, True, "Whether heartbeats are written."),
        _interval("emit.heartbeats", 1, "The seconds between two heartbeats."),
        _low("heartbeats.topic.replication.factor", _SHORT, 3, "How many replicas the topic of heartbeats gets.",
             _replication_factor),
    )
)  # fmt: skip

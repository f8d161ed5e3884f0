"""Settings of a group (KIP-848, KIP-932, KIP-1071) and of a client metrics subscription (KIP-714), with Kafka's types.

A table, and the checks that the ranges of the table cannot say. Settings of groups fall back to the broker setting that
`BROKER_SETTINGS` names. Those of share groups and streams groups are stored and described for Kafka's tools; this
version serves no such groups. Metrics of clients are not collected.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.config_definition import ConfigDefinition, ConfigError, ConfigType, definition_of, table

_BOOLEAN: Final = ConfigType.BOOLEAN
_INT: Final = ConfigType.INT
_LIST: Final = ConfigType.LIST
_STRING: Final = ConfigType.STRING

_define = ConfigDefinition
# fmt: off
GROUP_CONFIGS: Final = table((
    _define("consumer.assignment.interval.ms", _INT, "1000",
            "The shortest time between two assignments of the group.", minimum=0),
    _define("consumer.heartbeat.interval.ms", _INT, "5000",
            "How often members of the group send heartbeats.", minimum=1),
    _define("consumer.session.timeout.ms", _INT, "45000",
            "A member that sends no heartbeat for this long leaves the group.", minimum=1),
    _define("share.assignment.interval.ms", _INT, "1000",
            "The shortest time between two assignments of a share group.", minimum=0, has_effect=False),
    _define("share.auto.offset.reset", _STRING, "latest",
            "Where a share group starts to read: earliest, latest or by_duration:PnDTnHnMnS.", has_effect=False),
    _define("share.delivery.count.limit", _INT, "5",
            "How often a share group delivers a record.", minimum=2, has_effect=False),
    _define("share.heartbeat.interval.ms", _INT, "5000",
            "How often members of a share group send heartbeats.", minimum=1, has_effect=False),
    _define("share.isolation.level", _STRING, "read_uncommitted",
            "Whether a share group delivers records of aborted transactions.",
            choices=("read_committed", "read_uncommitted"), has_effect=False),
    _define("share.partition.max.record.locks", _INT, "2000",
            "How many records of a partition a share group may have locked.", minimum=100, has_effect=False),
    _define("share.record.lock.duration.ms", _INT, "30000",
            "How long a record is locked for a member of a share group.", minimum=1000, has_effect=False),
    _define("share.renew.acknowledge.enable", _BOOLEAN, "true",
            "Whether members of a share group may renew the lock of a record.", has_effect=False),
    _define("share.session.timeout.ms", _INT, "45000",
            "A member of a share group that sends no heartbeat for this long leaves it.", minimum=1, has_effect=False),
    _define("streams.assignment.interval.ms", _INT, "1000",
            "The shortest time between two assignments of a streams group.", minimum=0, has_effect=False),
    _define("streams.heartbeat.interval.ms", _INT, "5000",
            "How often members of a streams group send heartbeats.", minimum=1, has_effect=False),
    _define("streams.initial.rebalance.delay.ms", _INT, "3000",
            "How long a new streams group waits for more members.", minimum=0, has_effect=False),
    _define("streams.num.standby.replicas", _INT, "0",
            "The number of standby replicas of a streams group's tasks.", minimum=0, has_effect=False),
    _define("streams.session.timeout.ms", _INT, "45000",
            "A member of a streams group that sends no heartbeat for this long leaves it.", minimum=1,
            has_effect=False),
))

CLIENT_METRICS_CONFIGS: Final = table((
    _define("interval.ms", _INT, "300000",
            "How often clients push their metrics.", minimum=100, maximum=3_600_000, has_effect=False),
    _define("match", _LIST, "",
            "Which clients push metrics: key=pattern pairs, such as client_id=orders.*; empty means all.",
            has_effect=False),
    _define("metrics", _LIST, "",
            "The prefixes of the metrics that clients push; * means all.", has_effect=False),
))
# fmt: on

BROKER_SETTINGS: Final = {
    name: f"group.{name}"
    for name in GROUP_CONFIGS
    if name not in ("share.auto.offset.reset", "share.isolation.level", "share.renew.acknowledge.enable")
}
"""The broker setting that a group's setting falls back to."""

_MATCH_KEYS: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def check_group_configs(configs: Mapping[str, str], broker: BrokerConfig) -> None:
    """Raises ConfigError for the first name, value or combination that a group cannot be given."""
    for name, text in configs.items():
        definition_of("group", name, GROUP_CONFIGS).parse(text)
    interval_ms = group_value("consumer.heartbeat.interval.ms", configs, broker)
    timeout_ms = group_value("consumer.session.timeout.ms", configs, broker)
    _check_bounds("consumer.heartbeat.interval.ms", interval_ms, broker)
    _check_bounds("consumer.session.timeout.ms", timeout_ms, broker)
    _check_bounds(
        "consumer.assignment.interval.ms", group_value("consumer.assignment.interval.ms", configs, broker), broker
    )
    if timeout_ms <= interval_ms:
        raise ConfigError(
            f"consumer.session.timeout.ms ({timeout_ms}) must exceed consumer.heartbeat.interval.ms ({interval_ms})"
        )


def check_client_metrics(configs: Mapping[str, str]) -> None:
    """Raises ConfigError for the first name or value that a client metrics subscription cannot be given."""
    for name, text in configs.items():
        definition_of("client metrics", name, CLIENT_METRICS_CONFIGS).parse(text)
    for pair in filter(None, configs.get("match", "").split(",")):
        key, equals, pattern = pair.strip().partition("=")
        if not equals or key.strip() not in _MATCH_KEYS:
            raise ConfigError(
                f"match: {pair[:100]!r} is not accepted; expected key=pattern with one of the keys "
                f"{', '.join(sorted(_MATCH_KEYS))}"
            )
        try:
            re.compile(pattern.strip())
        except re.error as error:
            raise ConfigError(f"match: {pattern[:100]!r} is not a pattern: {error}") from None


def group_value(name: str, configs: Mapping[str, str], broker: BrokerConfig) -> int:
    """A number of a group, or of its broker where the group has none of its own."""
    field = BROKER_SETTINGS[name].replace(".", "_")
    value = GROUP_CONFIGS[name].parse(configs[name]) if name in configs else getattr(broker, field)
    assert isinstance(value, int)
    return value


def bounds(name: str, broker: BrokerConfig) -> tuple[int, int]:
    """What a broker allows for a number of `consumer.*`: its own settings `group.consumer.min.*` and `max.*`."""
    suffix = name.removeprefix("consumer.").replace(".", "_")
    return getattr(broker, f"group_consumer_min_{suffix}"), getattr(broker, f"group_consumer_max_{suffix}")


def _check_bounds(name: str, value: int, broker: BrokerConfig) -> None:
    lowest, highest = bounds(name, broker)
    if not lowest <= value <= highest:
        raise ConfigError(f"{name}: {value} is not accepted; this broker allows values from {lowest} to {highest}")

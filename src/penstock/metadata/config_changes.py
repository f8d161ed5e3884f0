"""Decisions about changes of settings at run time, by AlterConfigs and IncrementalAlterConfigs: settings of topics,
brokers, groups and client metrics.

Each function returns all settings that the resource has afterwards, or raises the BrokerError for the client. As in
Kafka, an invalid setting of a broker is INVALID_REQUEST and one of anything else is INVALID_CONFIG.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.broker_config_definitions import BROKER_CONFIGS
from penstock.metadata.config_definition import (
    ConfigDefinition,
    ConfigError,
    ConfigType,
    DynamicScope,
    definition_of,
)
from penstock.metadata.config_description import MIN_INSYNC_REPLICAS
from penstock.metadata.group_config_definitions import (
    CLIENT_METRICS_CONFIGS,
    GROUP_CONFIGS,
    check_client_metrics,
    check_group_configs,
)
from penstock.metadata.topic_config import TopicConfig, validate_overrides
from penstock.metadata.topic_config_definitions import TOPIC_CONFIGS
from penstock.metadata.unsupported_broker_configs import NAMES_WITHOUT_EFFECT, refusal
from penstock.protocol.error_codes import BrokerError, ErrorCode


class Operation(IntEnum):
    """IncrementalAlterConfigs' numbers."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigOperation(NamedTuple):
    """`operation` is the number from the wire, which need not be an `Operation`."""

    name: str
    operation: int
    value: str | None


def replace_topic_config(wanted: Iterable[tuple[str, str | None]], inherited: TopicConfig) -> dict[str, str]:
    """AlterConfigs: settings that are not named return to their inherited values."""
    configs = _without_nulls(wanted)
    return _checked_topic_config(configs, inherited)


def change_topic_config(
    current: Mapping[str, str], operations: Iterable[ConfigOperation], inherited: TopicConfig
) -> dict[str, str]:
    """IncrementalAlterConfigs: settings that are not named stay."""
    configs = _changed(current, operations, lambda name: definition_of("topic", name, TOPIC_CONFIGS))
    return _checked_topic_config(configs, inherited)


def replace_broker_config(
    wanted: Iterable[tuple[str, str | None]], config: BrokerConfig, *, per_broker: bool
) -> dict[str, str]:
    """AlterConfigs for one broker's dynamic settings, or with `per_broker=False` for those of all brokers."""
    configs = _without_nulls(wanted)
    return _checked_broker_config(configs, config, per_broker=per_broker)


def change_broker_config(
    current: Mapping[str, str], operations: Iterable[ConfigOperation], config: BrokerConfig, *, per_broker: bool
) -> dict[str, str]:
    """IncrementalAlterConfigs for the same settings."""
    operations = tuple(operations)
    if not per_broker and any(
        each.name == MIN_INSYNC_REPLICAS and each.operation == Operation.DELETE for each in operations
    ):
        raise BrokerError(
            ErrorCode.INVALID_CONFIG, f"{MIN_INSYNC_REPLICAS} of the cluster can be changed, and cannot be removed."
        )
    try:
        configs = _changed(current, operations, _broker_definition)
    except BrokerError as error:
        if error.code is ErrorCode.INVALID_CONFIG:
            raise BrokerError(ErrorCode.INVALID_REQUEST, error.message) from None
        raise
    return _checked_broker_config(configs, config, per_broker=per_broker)


def replace_group_config(wanted: Iterable[tuple[str, str | None]], broker: BrokerConfig) -> dict[str, str]:
    return _checked(_without_nulls(wanted), lambda configs: check_group_configs(configs, broker))


def change_group_config(
    current: Mapping[str, str], operations: Iterable[ConfigOperation], broker: BrokerConfig
) -> dict[str, str]:
    configs = _changed(current, operations, lambda name: definition_of("group", name, GROUP_CONFIGS))
    return _checked(configs, lambda configs: check_group_configs(configs, broker))


def replace_client_metrics(wanted: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    return _checked(_without_nulls(wanted), check_client_metrics)


def change_client_metrics(current: Mapping[str, str], operations: Iterable[ConfigOperation]) -> dict[str, str]:
    configs = _changed(current, operations, lambda name: definition_of("client metrics", name, CLIENT_METRICS_CONFIGS))
    return _checked(configs, check_client_metrics)


def _checked(configs: dict[str, str], check: Callable[[Mapping[str, str]], None]) -> dict[str, str]:
    try:
        check(configs)
    except ConfigError as error:
        raise BrokerError(ErrorCode.INVALID_CONFIG, str(error)) from None
    return configs


def _checked_topic_config(configs: dict[str, str], inherited: TopicConfig) -> dict[str, str]:
    return _checked(configs, lambda configs: validate_overrides(configs, inherited))


def _checked_broker_config(configs: dict[str, str], config: BrokerConfig, *, per_broker: bool) -> dict[str, str]:
    if per_broker and MIN_INSYNC_REPLICAS in configs:
        # KIP-966: which replicas may lead is decided by one value for the whole cluster.
        raise BrokerError(
            ErrorCode.INVALID_CONFIG, f"{MIN_INSYNC_REPLICAS} cannot be set for one broker; set it for all brokers."
        )
    try:
        for name, text in configs.items():
            definition = _broker_definition(name)
            if definition.scope is DynamicScope.READ_ONLY:
                raise ConfigError(f"{name} cannot be changed while the broker runs; set it in the broker's file")
            if definition.scope is DynamicScope.PER_BROKER and not per_broker:
                raise ConfigError(f"{name} can only be set for one broker, not for all; name the broker")
            definition.parse(text)
        if per_broker:
            config.with_dynamic(cluster_wide=config.layers.cluster_wide, per_broker=configs)
        else:
            config.with_dynamic(cluster_wide=configs, per_broker=config.layers.per_broker)
    except ConfigError as error:
        raise BrokerError(ErrorCode.INVALID_REQUEST, str(error)) from None
    return configs


def _broker_definition(name: str) -> ConfigDefinition:
    if name in NAMES_WITHOUT_EFFECT:
        raise ConfigError(f"{name} cannot be changed while the broker runs, and has no effect here; leave it out")
    reason = refusal(name)
    if reason is not None:
        raise ConfigError(f"{name} is not supported: {reason}")
    return definition_of("broker", name, BROKER_CONFIGS)


def _without_nulls(wanted: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    configs: dict[str, str] = {}
    for name, value in wanted:
        if name in configs:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{name[:100]} is given twice.")
        if value is None:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{name[:100]} has a null value; leave it out to reset it.")
        configs[name] = value
    return configs


def _changed(
    current: Mapping[str, str], operations: Iterable[ConfigOperation], define: Callable[[str], ConfigDefinition]
) -> dict[str, str]:
    configs = dict(current)
    seen: set[str] = set()
    for name, operation, value in operations:
        if name in seen:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{name[:100]} is given twice.")
        seen.add(name)
        try:
            definition = define(name)
        except ConfigError as error:
            raise BrokerError(ErrorCode.INVALID_CONFIG, str(error)) from None
        if operation == Operation.DELETE:
            configs.pop(name, None)
            continue
        if value is None:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{name} has a null value; use DELETE to reset it.")
        if operation == Operation.SET:
            configs[name] = value
        elif operation in (Operation.APPEND, Operation.SUBTRACT):
            configs[name] = _changed_list(definition, configs.get(name), Operation(operation), value)
        else:
            raise BrokerError(ErrorCode.INVALID_REQUEST, f"{name}: {operation} is not a known operation.")
    return configs


def _changed_list(definition: ConfigDefinition, current: str | None, operation: Operation, value: str) -> str:
    if definition.type is not ConfigType.LIST:
        raise BrokerError(
            ErrorCode.INVALID_CONFIG, f"{definition.name} is not a list; {operation.name} is for lists only."
        )
    items = _items(current if current is not None else definition.default or "")
    operands = _items(value)
    if operation is Operation.APPEND:
        items.extend(item for item in operands if item not in items)
    else:
        items = [item for item in items if item not in operands]
    return ",".join(items)


def _items(text: str) -> list[str]:
    return [item.strip() for item in text.split(",") if item.strip()]

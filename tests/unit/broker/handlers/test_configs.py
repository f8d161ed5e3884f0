"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.core import limits
from penstock.core.ids import TopicName
from penstock.protocol.definitions import alter_configs, incremental_alter_configs
from penstock.protocol.definitions.alter_configs import AlterConfigsRequest
from penstock.protocol.definitions.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from penstock.protocol.definitions.incremental_alter_configs import IncrementalAlterConfigsRequest
from penstock.protocol.definitions.list_config_resources import ListConfigResourcesRequest
from penstock.protocol.error_codes import ErrorCode
from tests.unit.broker.handlers.conftest import ClientMaker
from tests.unit.broker.handlers.requests import Client, versions_of
from tests.unit.broker.handlers.test_topic_administration import create, fail_to_write

TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


def describe(
    client: Client, kind: int, name: str, *keys: str, version: int | None = None, **options: bool
) -> dict[str, Any]:
    resource = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=list(keys) if keys else None
    )
    response = client.ask(DescribeConfigsRequest(resources=[resource], **options), version)
    [result] = response.results
    assert (result.resource_type, result.resource_name) == (kind, name)
    assert result.error_code == 0, result.error_message
    return {config.name: config for config in result.configs}


def replace(*resources: tuple[int, str, dict[str, str | None]], validate_only: bool = False) -> AlterConfigsRequest:
    return AlterConfigsRequest(
        resources=[
            alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[alter_configs.AlterableConfig(name=key, value=value) for key, value in configs.items()],
            )
            for kind, name, configs in resources
        ],
        validate_only=validate_only,
    )


def change(
    *resources: tuple[int, str, list[tuple[str, int, str | None]]], validate_only: bool = False
) -> IncrementalAlterConfigsRequest:
    return IncrementalAlterConfigsRequest(
        resources=[
            incremental_alter_configs.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental_alter_configs.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in operations
                ],
            )
            for kind, name, operations in resources
        ],
        validate_only=validate_only,
    )


def topic_configs(client: Client, name: str = "orders") -> dict[str, str]:
    return dict(client.node.image.topics[TopicName(name)].configs)


@pytest.mark.parametrize("version", versions_of(DescribeConfigsRequest))
def test_a_topic_is_described_in_every_version(client_with: ClientMaker, version: int) -> None:
    client = client_with({"log.segment.bytes": "2000000"})
    create(client, "orders")
    client.ask(replace((TOPIC, "orders", {"retention.ms": "5"})))
    shown = describe(client, TOPIC, "orders", version=version, include_synonyms=True, include_documentation=True)
    assert len(shown) > 30
    retention = shown["retention.ms"]
    assert (retention.value, retention.config_source, retention.read_only, retention.is_sensitive) == (
        "5",
        1,
        False,
        False,
    )
    assert [(synonym.name, synonym.source) for synonym in retention.synonyms] == [("retention.ms", 1)]
    assert [(synonym.name, synonym.value, synonym.source) for synonym in shown["segment.bytes"].synonyms] == [
        ("log.segment.bytes", "2000000", 4),
        ("log.segment.bytes", "1073741824", 5),
    ]
    assert (shown["segment.bytes"].value, shown["segment.bytes"].config_source) == ("2000000", 4)
    if version >= 3:
        assert retention.config_type == 5
        assert retention.documentation


def test_synonyms_and_documentation_come_only_when_asked_for(client: Client) -> None:
    create(client, "orders")
    shown = describe(client, TOPIC, "orders", "retention.ms", "cleanup.policy", "unheard.of")
    assert sorted(shown) == ["cleanup.policy", "retention.ms"]
    assert shown["retention.ms"].synonyms == []
    assert shown["retention.ms"].documentation is None


def test_a_broker_and_all_brokers_are_described(client_with: ClientMaker) -> None:
    client = client_with({"message.max.bytes": "1000"})
    assert list(describe(client, BROKER, "")) == ["min.insync.replicas"]
    client.ask(change((BROKER, "", [("message.max.bytes", SET, "2000")])))
    assert describe(client, BROKER, "")["message.max.bytes"].value == "2000"
    shown = describe(client, BROKER, "1")
    assert (shown["message.max.bytes"].value, shown["message.max.bytes"].config_source) == ("2000", 3)
    assert shown["node.id"].read_only
    client.ask(change((BROKER, "1", [("message.max.bytes", SET, "3000")])))
    shown = describe(client, BROKER, "1", include_synonyms=True)
    assert [(synonym.value, synonym.source) for synonym in shown["message.max.bytes"].synonyms] == [
        ("3000", 2),
        ("2000", 3),
        ("1000", 4),
        ("1048588", 5),
    ]


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "", ErrorCode.INVALID_REQUEST),
        (BROKER_LOGGER, "2", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "", ErrorCode.INVALID_REQUEST),
        (GROUP, "", ErrorCode.INVALID_REQUEST),
        (0, "", ErrorCode.INVALID_REQUEST),
        (-1, "", ErrorCode.INVALID_REQUEST),
        (99, "", ErrorCode.INVALID_REQUEST),
    ],
)
def test_resources_without_settings(client: Client, kind: int, name: str, code: ErrorCode) -> None:
    request = DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=kind, resource_name=name)])
    [result] = client.ask(request).results
    assert (result.error_code, result.configs) == (code, [])
    assert result.error_message
    assert client.ask(replace((kind, name, {}))).responses[0].error_code == code
    [result] = client.ask(change((kind, name, []))).responses
    assert (result.error_code, result.resource_type, result.resource_name) == (code, kind, name)


@pytest.mark.parametrize("version", versions_of(AlterConfigsRequest))
def test_settings_are_replaced_in_every_version(client: Client, version: int) -> None:
    create(client, "orders")
    client.ask(replace((TOPIC, "orders", {"retention.ms": "5", "segment.ms": "6"})), version)
    response = client.ask(replace((TOPIC, "orders", {"retention.ms": "7"})), version)
    [result] = response.responses
    assert (result.error_code, result.error_message, result.resource_name) == (0, None, "orders")
    assert topic_configs(client) == {"retention.ms": "7"}


@pytest.mark.parametrize("version", versions_of(IncrementalAlterConfigsRequest))
def test_single_settings_are_changed_in_every_version(client: Client, version: int) -> None:
    create(client, "orders")
    client.ask(replace((TOPIC, "orders", {"retention.ms": "5", "segment.ms": "6"})))
    operations = [("retention.ms", SET, "7"), ("segment.ms", DELETE, None), ("cleanup.policy", APPEND, "compact")]
    [result] = client.ask(change((TOPIC, "orders", operations)), version).responses
    assert result.error_code == 0
    assert topic_configs(client) == {"retention.ms": "7", "cleanup.policy": "delete,compact"}
    client.ask(change((TOPIC, "orders", [("cleanup.policy", SUBTRACT, "delete")])), version)
    assert topic_configs(client)["cleanup.policy"] == "compact"


def test_each_resource_is_judged_by_itself(client: Client) -> None:
    create(client, "orders", "payments")
    response = client.ask(
        change(
            (TOPIC, "orders", [("retention.ms", SET, "5")]),
            (TOPIC, "payments", [("retension.ms", SET, "5")]),
            (TOPIC, "none", [("retention.ms", SET, "5")]),
            (BROKER, "1", [("node.id", SET, "5")]),
        )
    )
    assert [result.error_code for result in response.responses] == [
        ErrorCode.NONE,
        ErrorCode.INVALID_CONFIG,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_REQUEST,
    ]
    assert "did you mean retention.ms" in response.responses[1].error_message
    assert topic_configs(client) == {"retention.ms": "5"}


def test_a_resource_that_is_named_twice_is_not_changed(client: Client) -> None:
    create(client, "orders")
    response = client.ask(replace((TOPIC, "orders", {"retention.ms": "5"}), (TOPIC, "orders", {"segment.ms": "5"})))
    assert [result.error_code for result in response.responses] == [ErrorCode.INVALID_REQUEST] * 2
    assert topic_configs(client) == {}


def test_validation_alone_changes_nothing(client: Client) -> None:
    create(client, "orders")
    response = client.ask(replace((TOPIC, "orders", {"retention.ms": "5"}), validate_only=True))
    assert response.responses[0].error_code == 0
    response = client.ask(change((TOPIC, "orders", [("retention.ms", SET, "x")]), validate_only=True))
    assert response.responses[0].error_code == ErrorCode.INVALID_CONFIG
    assert topic_configs(client) == {}


def test_a_full_disk_changes_nothing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    create(client, "orders")
    fail_to_write(monkeypatch)
    response = client.ask(
        replace((TOPIC, "orders", {"retention.ms": "5"}), (TOPIC, "none", {}), (BROKER, "", {"message.max.bytes": "5"}))
    )
    assert [result.error_code for result in response.responses] == [
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
    ]
    assert topic_configs(client) == {}
    assert client.node.config.message_max_bytes == 1_048_588


def test_a_broker_setting_changes_what_topics_inherit(client: Client) -> None:
    create(client, "orders")
    client.ask(change((BROKER, "", [("log.retention.ms", SET, "9")])))
    assert describe(client, TOPIC, "orders")["retention.ms"].value == "9"
    client.ask(change((BROKER, "", [("log.retention.ms", DELETE, None)])))
    assert describe(client, TOPIC, "orders")["retention.ms"].value == "604800000"


def test_settings_that_no_longer_fit_together_stay_readable(client: Client) -> None:
    """A topic's setting was accepted; a later one for all brokers contradicts it. Neither may break anything."""
    create(client, "orders")
    client.ask(replace((TOPIC, "orders", {"min.compaction.lag.ms": "10"})))
    response = client.ask(change((BROKER, "", [("log.cleaner.max.compaction.lag.ms", SET, "5")])))
    assert response.responses[0].error_code == 0
    assert describe(client, TOPIC, "orders")["min.compaction.lag.ms"].value == "10"


def test_names_with_settings_are_listed(client: Client) -> None:
    create(client, "orders", "payments")
    assert client.ask(ListConfigResourcesRequest(), 0).config_resources == []
    response = client.ask(ListConfigResourcesRequest(resource_types=[]), 1)
    assert [(found.resource_type, found.resource_name) for found in response.config_resources] == [
        (TOPIC, "orders"),
        (TOPIC, "payments"),
        (BROKER, "1"),
        (BROKER_LOGGER, "1"),
    ]
    response = client.ask(ListConfigResourcesRequest(resource_types=[BROKER, GROUP]), 1)
    assert [found.resource_name for found in response.config_resources] == ["1"]
    assert client.ask(ListConfigResourcesRequest(resource_types=[3]), 1).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_groups_and_client_metrics_with_settings_are_listed(client: Client) -> None:
    client.ask(
        change(
            (GROUP, "readers", [("consumer.session.timeout.ms", SET, "50000")]),
            (CLIENT_METRICS, "latency", [("interval.ms", SET, "1000")]),
        )
    )
    response = client.ask(ListConfigResourcesRequest(resource_types=[CLIENT_METRICS, GROUP]), 1)
    found = [(each.resource_type, each.resource_name) for each in response.config_resources]
    assert found == [(CLIENT_METRICS, "latency"), (GROUP, "readers")]
    [found_before] = client.ask(ListConfigResourcesRequest(), 0).config_resources
    assert found_before.resource_name == "latency"
    client.ask(change((CLIENT_METRICS, "latency", [("interval.ms", DELETE, None)])))
    assert client.ask(ListConfigResourcesRequest(), 0).config_resources == []


@pytest.mark.parametrize(
    "name",
    [
        "flush.ms",
        "segment.ms",
        "segment.jitter.ms",
        "retention.ms",
        "remote.storage.enable",
        "remote.log.copy.disable",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
    ],
)
def test_synonyms_that_kafka_does_not_list_are_not_listed(client_with: ClientMaker, name: str) -> None:
    client = client_with({"log.roll.hours": "5"})
    create(client, "orders")
    shown = describe(client, TOPIC, "orders", name, include_synonyms=True)[name]
    assert shown.synonyms == []
    assert shown.value == {"segment.ms": "18000000"}.get(name, shown.value)


def test_synonyms_begin_with_the_setting_that_is_in_effect(client: Client) -> None:
    create(client, "orders")
    client.ask(change((BROKER, "", [("log.flush.interval.ms", SET, "7")])))
    shown = describe(client, TOPIC, "orders", "flush.ms", include_synonyms=True)["flush.ms"]
    assert (shown.value, shown.config_source) == ("7", 3)
    assert [(synonym.name, synonym.source) for synonym in shown.synonyms] == [
        ("log.flush.interval.ms", 3),
        ("log.flush.scheduler.interval.ms", 5),
    ]


def test_the_minimum_of_insync_replicas_is_the_clusters(client_with: ClientMaker) -> None:
    """KIP-966: with eligible leader replicas the cluster always has a value of its own."""
    client = client_with({"min.insync.replicas": "2"})
    create(client, "orders")
    name = "min.insync.replicas"
    for kind, resource in ((TOPIC, "orders"), (BROKER, "1"), (BROKER, "")):
        shown = describe(client, kind, resource, name, include_synonyms=True)[name]
        assert (shown.value, shown.config_source) == ("2", 3)
        assert (shown.synonyms[0].name, shown.synonyms[0].source) == (name, 3)
    for resource, operation, value, code in (
        ("1", SET, "1", ErrorCode.INVALID_CONFIG),
        ("", SET, "1", ErrorCode.NONE),
        ("", DELETE, None, ErrorCode.INVALID_CONFIG),
    ):
        [changed] = client.ask(change((BROKER, resource, [(name, operation, value)]))).responses
        assert changed.error_code == code
    assert describe(client, BROKER, "", name)[name].value == "1"


def test_a_group_that_does_not_exist_is_described_with_the_defaults(client_with: ClientMaker) -> None:
    client = client_with({"group.consumer.session.timeout.ms": "50000"})
    shown = describe(client, GROUP, "no-such-group", include_synonyms=True, include_documentation=True)
    timeout = shown["consumer.session.timeout.ms"]
    assert (timeout.value, timeout.config_source, timeout.read_only, timeout.config_type) == ("50000", 4, False, 3)
    assert [(each.name, each.value, each.source) for each in timeout.synonyms] == [
        ("group.consumer.session.timeout.ms", "50000", 4),
        ("group.consumer.session.timeout.ms", "45000", 5),
    ]
    assert (shown["consumer.heartbeat.interval.ms"].value, shown["consumer.heartbeat.interval.ms"].config_source) == (
        "5000",
        5,
    )
    assert shown["share.auto.offset.reset"].value == "latest"


def test_settings_of_a_group_are_stored(client: Client) -> None:
    request = change((GROUP, "readers", [("consumer.heartbeat.interval.ms", SET, "6000")]))
    [result] = client.ask(request).responses
    assert result.error_code == 0
    shown = describe(client, GROUP, "readers", include_synonyms=True)["consumer.heartbeat.interval.ms"]
    assert (shown.value, shown.config_source, shown.synonyms[0].name) == ("6000", 8, "consumer.heartbeat.interval.ms")
    [result] = client.ask(replace((GROUP, "readers", {"consumer.session.timeout.ms": "45001"}))).responses
    assert result.error_code == 0
    assert client.node.image.group_configs == {"readers": {"consumer.session.timeout.ms": "45001"}}
    client.ask(replace((GROUP, "readers", {})))
    assert client.node.image.group_configs == {}


@pytest.mark.parametrize(
    ("kind", "name", "value", "message"),
    [
        (GROUP, "consumer.session.timeout", "45000", "did you mean consumer.session.timeout.ms"),
        (GROUP, "consumer.session.timeout.ms", "x", "an integer"),
        (GROUP, "consumer.session.timeout.ms", "44999", "from 45000 to 60000"),
        (GROUP, "consumer.session.timeout.ms", "60001", "from 45000 to 60000"),
        (GROUP, "consumer.heartbeat.interval.ms", "4999", "from 5000 to 15000"),
        (GROUP, "consumer.assignment.interval.ms", "15001", "from 0 to 15000"),
        (CLIENT_METRICS, "interval.ms", "99", "from 100 to 3600000"),
        (CLIENT_METRICS, "interval", "100", "did you mean interval.ms"),
        (CLIENT_METRICS, "match", "client=x", "client_id"),
        (CLIENT_METRICS, "match", "client_id=(", "not a pattern"),
    ],
)
def test_what_a_group_or_client_metrics_cannot_be_given(
    client: Client, kind: int, name: str, value: str, message: str
) -> None:
    for request in (change((kind, "it", [(name, SET, value)])), replace((kind, "it", {name: value}))):
        [result] = client.ask(request).responses
        assert result.error_code == ErrorCode.INVALID_CONFIG
        assert message in result.error_message
    assert client.node.committed == []


def test_client_metrics_are_stored(client: Client) -> None:
    operations: list[tuple[str, int, str | None]]
    operations = [("metrics", SET, "org.apache.kafka."), ("match", APPEND, "client_id=orders.*,client_source_port=9.*")]
    [result] = client.ask(change((CLIENT_METRICS, "latency", operations))).responses
    assert result.error_code == 0
    shown = describe(client, CLIENT_METRICS, "latency", include_synonyms=True)
    assert (shown["metrics"].value, shown["metrics"].config_source) == ("org.apache.kafka.", 7)
    assert (shown["interval.ms"].value, shown["interval.ms"].config_source) == ("300000", 5)
    client.ask(change((CLIENT_METRICS, "latency", [("match", SUBTRACT, "client_source_port=9.*")])))
    assert client.node.image.client_metrics["latency"]["match"] == "client_id=orders.*"


@pytest.fixture
def some_logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("penstock.broker.some_logger")
    yield logger
    logger.setLevel(logging.NOTSET)


def test_the_levels_of_loggers_change_in_this_process(client: Client, some_logger: logging.Logger) -> None:
    def level() -> Any:
        return describe(client, BROKER_LOGGER, "1", some_logger.name, include_synonyms=True)[some_logger.name]

    inherited = level().value
    [result] = client.ask(
        change((BROKER_LOGGER, "1", [(some_logger.name, SET, "ERROR")]), validate_only=True)
    ).responses
    assert (result.error_code, some_logger.level) == (0, logging.NOTSET)
    [result] = client.ask(change((BROKER_LOGGER, "1", [(some_logger.name, SET, "ERROR")]))).responses
    assert (result.error_code, some_logger.level) == (0, logging.ERROR)
    assert (level().value, level().config_source, level().read_only) == ("ERROR", 6, False)
    client.ask(change((BROKER_LOGGER, "1", [(some_logger.name, DELETE, None)])))
    assert (level().value, some_logger.level) == (inherited, logging.NOTSET)
    assert "root" in describe(client, BROKER_LOGGER, "1")
    assert client.node.committed == []


@pytest.mark.parametrize(
    ("name", "operation", "value", "code"),
    [
        ("no.such.logger", SET, "INFO", ErrorCode.INVALID_CONFIG),
        ("penstock.broker.some_logger", SET, "LOUD", ErrorCode.INVALID_CONFIG),
        ("penstock.broker.some_logger", SET, None, ErrorCode.INVALID_CONFIG),
        ("penstock.broker.some_logger", APPEND, "INFO", ErrorCode.INVALID_REQUEST),
        ("root", DELETE, None, ErrorCode.INVALID_REQUEST),
    ],
)
def test_levels_that_are_refused(
    client: Client, some_logger: logging.Logger, name: str, operation: int, value: str | None, code: ErrorCode
) -> None:
    operations = [("penstock.broker.some_logger", SET, "FATAL")] if name == "root" else []
    [result] = client.ask(change((BROKER_LOGGER, "1", [*operations, (name, operation, value)]))).responses
    assert (result.error_code, some_logger.level) == (code, logging.NOTSET)
    [result] = client.ask(replace((BROKER_LOGGER, "1", {"root": "INFO"}))).responses
    assert result.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("name", "value", "per_broker_only"),
    [
        ("log.cleaner.threads", "2", False),
        ("group.coordinator.cached.buffer.max.bytes", "2097152", False),
        ("share.coordinator.cached.buffer.max.bytes", "2097152", False),
        ("group.share.assignment.interval.ms", "2000", False),
        ("group.streams.assignment.interval.ms", "2000", False),
        ("num.io.threads", "16", False),
        ("leader.replication.throttled.rate", "1000", False),
        ("sasl.kerberos.kinit.cmd", "/bin/kinit", True),
    ],
)
def test_settings_that_tune_parts_of_kafka_are_stored_and_described(
    client: Client, name: str, value: str, per_broker_only: bool
) -> None:
    [result] = client.ask(change((BROKER, "1", [(name, SET, value)]))).responses
    assert result.error_code == 0, result.error_message
    assert (describe(client, BROKER, "1")[name].value, describe(client, BROKER, "1")[name].config_source) == (value, 2)
    [result] = client.ask(change((BROKER, "", [(name, SET, value)]))).responses
    assert result.error_code == (ErrorCode.INVALID_REQUEST if per_broker_only else 0)
    if not per_broker_only:
        assert describe(client, BROKER, "")[name].value == value


@pytest.mark.parametrize("kind", [GROUP, CLIENT_METRICS])
def test_resources_that_need_not_exist_are_bounded(client: Client, monkeypatch: pytest.MonkeyPatch, kind: int) -> None:
    monkeypatch.setattr(limits, "CONFIG_RESOURCES_MAX", 2)
    names = ["one", "two", "three"]
    wanted = [DescribeConfigsResource(resource_type=kind, resource_name=name) for name in names]
    assert [bool(each.configs) for each in client.ask(DescribeConfigsRequest(resources=wanted[:2])).results] == [
        True
    ] * 2
    for result in client.ask(DescribeConfigsRequest(resources=wanted)).results:
        assert (result.error_code, result.configs) == (ErrorCode.INVALID_REQUEST, [])
    for result in client.ask(replace(*((kind, name, {}) for name in names))).responses:
        assert result.error_code == ErrorCode.INVALID_REQUEST

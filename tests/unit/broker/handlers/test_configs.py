"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs, ListConfigResources."""

from __future__ import annotations

from typing import Any

import pytest

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
    assert [(synonym.name, synonym.source) for synonym in retention.synonyms] == [
        ("retention.ms", 1),
        ("log.retention.ms", 5),
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
    assert describe(client, BROKER, "") == {}
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
        (BROKER_LOGGER, "1", ErrorCode.INVALID_REQUEST),
        (CLIENT_METRICS, "m", ErrorCode.INVALID_REQUEST),
        (GROUP, "g", ErrorCode.INVALID_REQUEST),
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
    ]
    response = client.ask(ListConfigResourcesRequest(resource_types=[BROKER, GROUP]), 1)
    assert [found.resource_name for found in response.config_resources] == ["1"]
    assert client.ask(ListConfigResourcesRequest(resource_types=[3]), 1).error_code == ErrorCode.UNSUPPORTED_VERSION

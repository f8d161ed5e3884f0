"""kafka-configs against this broker: users, quotas, brokers, topics, groups and loggers."""

from __future__ import annotations

import pytest

from tests.kafka_tools.tools import BrokerTools

pytestmark = pytest.mark.clients


def described(tools: BrokerTools, *entity: str) -> list[str]:
    return tools.run("kafka-configs", "--describe", *entity).splitlines()


def alter(tools: BrokerTools, *words: str) -> None:
    tools.run("kafka-configs", "--alter", *words)


def refused(tools: BrokerTools, *words: str) -> str:
    return tools.refused("kafka-configs", "--alter", *words)


def test_users(tools: BrokerTools) -> None:
    alice = ("--entity-type", "users", "--entity-name", "alice")
    credentials = "SCRAM-SHA-256=[iterations=8192,password=alice-secret],SCRAM-SHA-512=[password=alice-secret]"
    alter(tools, *alice, "--add-config", credentials)
    both = "SCRAM credential configs for user-principal 'alice' are "
    both += "SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096"
    assert described(tools, *alice) == [both]
    assert both in described(tools, "--entity-type", "users")
    alter(tools, *alice, "--delete-config", "SCRAM-SHA-512")
    assert described(tools, *alice) == [
        "SCRAM credential configs for user-principal 'alice' are SCRAM-SHA-256=iterations=8192"
    ]
    assert refused(tools, *alice, "--delete-config", "SCRAM-SHA-512") == "ResourceNotFoundException"
    alter(tools, *alice, "--delete-config", "SCRAM-SHA-256")
    assert described(tools, *alice) == []


def test_quotas(tools: BrokerTools) -> None:
    bob = ("--entity-type", "users", "--entity-name", "bob")
    app_of_bob = (*bob, "--entity-type", "clients", "--entity-name", "app")
    default_user = ("--entity-type", "users", "--entity-default")
    default_client = ("--entity-type", "clients", "--entity-default")
    ip = ("--entity-type", "ips", "--entity-name", "10.0.0.1")
    alter(tools, *bob, "--add-config", "producer_byte_rate=1024,consumer_byte_rate=2048,request_percentage=50")
    alter(tools, *app_of_bob, "--add-config", "producer_byte_rate=10")
    alter(tools, *default_user, "--add-config", "controller_mutation_rate=5.5")
    alter(tools, *default_client, "--add-config", "consumer_byte_rate=1e12")
    alter(tools, *ip, "--add-config", "connection_creation_rate=9")
    assert described(tools, *bob) == [
        "Quota configs for user-principal 'bob' are "
        "consumer_byte_rate=2048.0, producer_byte_rate=1024.0, request_percentage=50.0"
    ]
    assert described(tools, *app_of_bob) == [
        "Quota configs for user-principal 'bob', client-id 'app' are producer_byte_rate=10.0"
    ]
    assert described(tools, *default_user) == [
        "Quota configs for the default user-principal are controller_mutation_rate=5.5"
    ]
    assert described(tools, *default_client) == [
        "Quota configs for the default client-id are consumer_byte_rate=1.0E12"
    ]
    assert described(tools, *ip) == ["Quota configs for ip '10.0.0.1' are connection_creation_rate=9.0"]
    for value in ("0", "-1"):
        assert refused(tools, *bob, "--add-config", f"producer_byte_rate={value}") == "InvalidRequestException"
    alter(tools, *bob, "--delete-config", "producer_byte_rate,consumer_byte_rate,request_percentage")
    alter(tools, *app_of_bob, "--delete-config", "producer_byte_rate")
    alter(tools, *default_user, "--delete-config", "controller_mutation_rate")
    alter(tools, *default_client, "--delete-config", "consumer_byte_rate")
    alter(tools, *ip, "--delete-config", "connection_creation_rate")
    for entity in (bob, app_of_bob, default_user, default_client, ip):
        assert described(tools, *entity) == []


def test_brokers(tools: BrokerTools) -> None:
    """A setting that has no effect here is accepted and described, as runbooks expect it."""
    node = ("--entity-type", "brokers", "--entity-name", "1")
    alter(tools, *node, "--add-config", "log.cleaner.threads=2,max.connections=500")
    assert described(tools, *node) == [
        "Dynamic configs for broker 1 are:",
        "  log.cleaner.threads=2 sensitive=false synonyms="
        "{DYNAMIC_BROKER_CONFIG:log.cleaner.threads=2, DEFAULT_CONFIG:log.cleaner.threads=1}",
        "  max.connections=500 sensitive=false synonyms="
        "{DYNAMIC_BROKER_CONFIG:max.connections=500, DEFAULT_CONFIG:max.connections=2147483647}",
    ]
    for setting in ("node.id=7", "max.connections.per.ip=-4", "no.such.config=7"):
        assert refused(tools, *node, "--add-config", setting) == "InvalidRequestException"
    alter(tools, *node, "--delete-config", "log.cleaner.threads,max.connections")
    assert described(tools, *node) == ["Dynamic configs for broker 1 are:"]


def test_topics(tools: BrokerTools) -> None:
    tools.run("kafka-topics", "--create", "--topic", "configured", "--config", "retention.ms=1000")
    topic = ("--entity-type", "topics", "--entity-name", "configured")
    alter(tools, *topic, "--add-config", "cleanup.policy=[compact,delete]")
    assert described(tools, *topic) == [
        "Dynamic configs for topic configured are:",
        "  cleanup.policy=compact,delete sensitive=false synonyms="
        "{DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact,delete, DEFAULT_CONFIG:log.cleanup.policy=delete}",
        "  retention.ms=1000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=1000}",
    ]
    assert refused(tools, *topic, "--add-config", "cleanup.policy=nonsense") == "InvalidConfigurationException"
    alter(tools, *topic, "--delete-config", "cleanup.policy,retention.ms")
    assert described(tools, *topic) == ["Dynamic configs for topic configured are:"]
    unknown = ("--entity-type", "topics", "--entity-name", "unknown")
    assert refused(tools, *unknown, "--add-config", "retention.ms=1") == "UnknownTopicOrPartitionException"


def test_groups(tools: BrokerTools) -> None:
    """Also of a group that does not exist."""
    group = ("--entity-type", "groups", "--entity-name", "configured")
    alter(tools, *group, "--add-config", "consumer.session.timeout.ms=50000")
    assert described(tools, *group) == [
        "Dynamic configs for group configured are:",
        "  consumer.session.timeout.ms=50000 sensitive=false synonyms="
        "{DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms=50000,"
        " DEFAULT_CONFIG:group.consumer.session.timeout.ms=45000}",
    ]
    assert refused(tools, *group, "--add-config", "consumer.session.timeout.ms=1") == "InvalidConfigurationException"
    alter(tools, *group, "--delete-config", "consumer.session.timeout.ms")
    assert described(tools, *group) == ["The group 'configured' doesn't exist and doesn't have dynamic config."]


def test_loggers(tools: BrokerTools) -> None:
    loggers = ("--entity-type", "broker-loggers", "--entity-name", "1")

    def level(logger: str) -> str:
        (line,) = (each for each in described(tools, *loggers) if each.startswith(f"  {logger}="))
        return line.partition("=")[2].partition(" ")[0]

    before = level("penstock.broker.log_cleaner")
    alter(tools, *loggers, "--add-config", "penstock.broker.log_cleaner=ERROR")
    assert level("penstock.broker.log_cleaner") == "ERROR"
    assert refused(tools, *loggers, "--add-config", "root=SHOUT") == "InvalidConfigurationException"
    assert refused(tools, *loggers, "--delete-config", "root") == "InvalidRequestException"
    alter(tools, *loggers, "--delete-config", "penstock.broker.log_cleaner")
    assert level("penstock.broker.log_cleaner") == before

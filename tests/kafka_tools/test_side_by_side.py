"""What runbooks call, on this broker and on Apache Kafka: the same commands have the same output.

Compared are exit codes, output without what is random or differs from machine to machine, and of failures the errors
of the protocol: the words of a message are each broker's own.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource

from penstock.testing import Broker
from penstock.testing.apache_kafka import ApacheKafka
from tests.conftest import RunningBroker
from tests.kafka_tools.conftest import SETTINGS
from tests.kafka_tools.tools import BrokerTools, Finished, KafkaTools, errors_in

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

PATIENCE_S: Final = 30
# The records are years old: the first check of retention comes after the test.
SETTINGS_OF_BOTH: Final = {**SETTINGS, "log.initial.task.delay.ms": "3600000"}
FIRST_MS: Final = 1_700_000_000_000
STACK_TRACE_OR_LOG: Final = re.compile(r"\s+at |[\d-]+T[\d:.]+Z ")

# Later lines see what earlier ones did. NODE is the broker's id, FILE: a file of FILES.
BEFORE_RECORDS: Final = """
kafka-topics --create --topic orders --partitions 3 --config cleanup.policy=compact
kafka-topics --create --topic orders --partitions 3
kafka-topics --create --topic orders --partitions 3 --if-not-exists
kafka-topics --create --topic many --partitions 3 --replication-factor 3
kafka-topics --create --topic bad/name
kafka-topics --list
kafka-topics --describe --topic orders
kafka-topics --alter --topic orders --partitions 4
kafka-topics --alter --topic orders --partitions 2
kafka-topics --describe --under-replicated-partitions
kafka-topics --describe --unavailable-partitions
kafka-topics --describe --under-min-isr-partitions
kafka-topics --describe --at-min-isr-partitions
kafka-topics --describe --topics-with-overrides
kafka-delete-records --offset-json-file FILE:delete
kafka-configs --alter --entity-type topics --entity-name orders --delete-config cleanup.policy
"""
WITH_A_MEMBER: Final = """
kafka-consumer-groups --list
kafka-consumer-groups --list --state
kafka-consumer-groups --list --type
kafka-groups --list
kafka-consumer-groups --describe --group billing
kafka-consumer-groups --describe --group billing --members --verbose
kafka-consumer-groups --describe --group billing --state
kafka-consumer-groups --delete --group billing
kafka-consumer-groups --reset-offsets --group billing --topic orders --to-earliest --execute
kafka-consumer-groups --delete-offsets --group billing --topic orders
"""
AFTER_THE_MEMBER: Final = """
kafka-consumer-groups --describe --group billing
kafka-consumer-groups --describe --all-groups --state
kafka-consumer-groups --reset-offsets --group billing --topic orders --to-earliest --dry-run
kafka-consumer-groups --reset-offsets --group billing --topic orders:0,1 --shift-by -2 --execute
kafka-consumer-groups --reset-offsets --group billing --topic orders:2 --to-datetime 2023-11-14T22:13:20.010Z --execute
kafka-consumer-groups --describe --group billing --offsets
kafka-consumer-groups --delete-offsets --group billing --topic orders:0
kafka-consumer-groups --describe --group unknown
kafka-consumer-groups --delete --group unknown
kafka-consumer-groups --delete --group billing
kafka-consumer-groups --list
"""
SETTINGS_AND_USERS: Final = """
kafka-configs --alter --entity-type users --entity-name alice --add-config SCRAM-SHA-256=[iterations=8192,password=x]
kafka-configs --alter --entity-type users --entity-name alice --add-config SCRAM-SHA-512=[password=x]
kafka-configs --describe --entity-type users --entity-name alice
kafka-configs --describe --entity-type users
kafka-configs --alter --entity-type users --entity-name alice --delete-config SCRAM-SHA-512
kafka-configs --alter --entity-type users --entity-name alice --delete-config SCRAM-SHA-512
kafka-configs --alter --entity-type users --entity-name alice --add-config producer_byte_rate=1024,request_percentage=50
kafka-configs --alter --entity-type users --entity-name alice --entity-type clients --entity-name app --add-config producer_byte_rate=10
kafka-configs --alter --entity-type users --entity-default --add-config controller_mutation_rate=5.5
kafka-configs --alter --entity-type clients --entity-default --add-config consumer_byte_rate=1e12
kafka-configs --alter --entity-type ips --entity-name 10.0.0.1 --add-config connection_creation_rate=9
kafka-configs --alter --entity-type ips --entity-default --add-config connection_creation_rate=1000
kafka-configs --alter --entity-type clients --entity-name app --add-config producer_byte_rate=0
kafka-configs --alter --entity-type clients --entity-name app --add-config producer_byte_rate=1.5
kafka-configs --alter --entity-type ips --entity-name 10.0.0.1 --add-config connection_creation_rate=-1
kafka-configs --describe --entity-type users
kafka-configs --describe --entity-type users --entity-name alice --entity-type clients --entity-name app
kafka-configs --describe --entity-type users --entity-type clients
kafka-configs --describe --entity-type users --entity-default
kafka-configs --describe --entity-type clients
kafka-configs --describe --entity-type ips
kafka-configs --describe --entity-type ips --entity-name 10.0.0.1
kafka-configs --alter --entity-type users --entity-default --delete-config controller_mutation_rate
kafka-configs --alter --entity-type brokers --entity-name NODE --add-config log.cleaner.threads=2,max.connections=500
kafka-configs --alter --entity-type brokers --entity-default --add-config log.retention.ms=86400000
kafka-configs --describe --entity-type brokers --entity-name NODE
kafka-configs --describe --entity-type brokers --entity-default
kafka-configs --describe --entity-type brokers
kafka-configs --alter --entity-type brokers --entity-default --add-config max.connections.per.ip=-4
kafka-configs --alter --entity-type brokers --entity-name NODE --add-config node.id=7
kafka-configs --alter --entity-type brokers --entity-name NODE --add-config min.insync.replicas=1
kafka-configs --alter --entity-type brokers --entity-default --add-config min.insync.replicas=1
kafka-configs --alter --entity-type brokers --entity-default --delete-config min.insync.replicas
kafka-configs --alter --entity-type brokers --entity-name NODE --delete-config log.cleaner.threads,max.connections
kafka-configs --alter --entity-type brokers --entity-name NODE --delete-config log.cleaner.threads
kafka-configs --alter --entity-type brokers --entity-default --delete-config log.retention.ms
kafka-configs --describe --entity-type brokers --entity-name NODE
kafka-configs --alter --entity-type topics --entity-name orders --add-config retention.ms=1000000,cleanup.policy=[compact,delete]
kafka-configs --describe --entity-type topics --entity-name orders
kafka-configs --describe --entity-type topics --entity-name orders --all
kafka-configs --alter --entity-type topics --entity-name orders --delete-config retention.ms,cleanup.policy
kafka-configs --alter --entity-type topics --entity-name orders --delete-config retention.ms
kafka-configs --alter --entity-type topics --entity-name orders --add-config cleanup.policy=nonsense
kafka-configs --alter --entity-type topics --entity-name orders --add-config no.such.config=1
kafka-configs --alter --entity-type topics --entity-name unknown --add-config retention.ms=1
kafka-configs --describe --entity-type topics --entity-name unknown
kafka-configs --alter --entity-type groups --entity-name billing --add-config consumer.session.timeout.ms=50000
kafka-configs --describe --entity-type groups --entity-name billing
kafka-configs --describe --entity-type groups --entity-name billing --all
kafka-configs --describe --entity-type groups
kafka-configs --alter --entity-type groups --entity-name billing --add-config consumer.session.timeout.ms=1
kafka-configs --alter --entity-type groups --entity-name billing --add-config no.such.config=1
kafka-configs --alter --entity-type groups --entity-name billing --delete-config consumer.session.timeout.ms
kafka-configs --describe --entity-type groups --entity-name billing
kafka-configs --alter --entity-type broker-loggers --entity-name NODE --add-config root=SHOUT
kafka-configs --alter --entity-type broker-loggers --entity-name NODE --add-config no.such.logger=DEBUG
kafka-configs --alter --entity-type broker-loggers --entity-name NODE --delete-config root
"""  # noqa: E501
ACLS: Final = """
kafka-acls --add --allow-principal User:alice --operation Read --topic orders
kafka-acls --add --allow-principal User:alice --operation Read --topic orders
kafka-acls --add --allow-principal User:bob --producer --topic ord --resource-pattern-type prefixed --transactional-id tx
kafka-acls --add --deny-principal User:eve --deny-host 10.0.0.1 --operation All --topic *
kafka-acls --add --allow-principal User:carol --consumer --topic orders --group billing
kafka-acls --add --allow-principal User:carol --operation ClusterAction --cluster
kafka-acls --add --allow-principal User:carol --operation CreateTokens --user-principal User:x
kafka-acls --add --allow-principal User:carol --operation Describe --delegation-token token
kafka-acls --list
kafka-acls --list --topic orders
kafka-acls --list --topic orders --resource-pattern-type match
kafka-acls --list --topic ord --resource-pattern-type any
kafka-acls --list --principal User:carol
kafka-acls --remove --topic orders --allow-principal User:alice --operation Read --force
kafka-acls --remove --topic orders --allow-principal User:alice --operation Read --force
kafka-acls --remove --topic ord --resource-pattern-type prefixed --force
kafka-acls --remove --topic * --resource-pattern-type any --force
kafka-acls --list
"""  # noqa: E501
RUNBOOKS: Final = """
kafka-leader-election --election-type preferred --all-topic-partitions
kafka-leader-election --election-type preferred --path-to-json-file FILE:elect
kafka-leader-election --election-type unclean --topic orders --partition 0
kafka-leader-election --election-type preferred --topic unknown --partition 0
kafka-reassign-partitions --list
kafka-reassign-partitions --generate --topics-to-move-json-file FILE:topics --broker-list NODE
kafka-reassign-partitions --execute --reassignment-json-file FILE:to-itself
kafka-reassign-partitions --verify --reassignment-json-file FILE:to-itself
kafka-reassign-partitions --execute --reassignment-json-file FILE:to-itself --throttle 1000
kafka-reassign-partitions --verify --reassignment-json-file FILE:to-itself
kafka-reassign-partitions --cancel --reassignment-json-file FILE:to-itself
kafka-reassign-partitions --execute --reassignment-json-file FILE:unknown-topic
kafka-reassign-partitions --execute --reassignment-json-file FILE:unknown-broker
kafka-log-dirs --describe --topic-list unknown
kafka-log-dirs --describe --broker-list 0,1,2
kafka-transactions list
kafka-transactions describe --transactional-id unknown
kafka-transactions describe-producers --topic orders --partition 1
kafka-transactions find-hanging --broker-id NODE
kafka-transactions find-hanging --topic orders
kafka-get-offsets --topic orders
kafka-get-offsets --topic orders --time earliest
kafka-get-offsets --topic orders --time max-timestamp
kafka-get-offsets --topic orders --time earliest-local
kafka-get-offsets --topic orders --time latest-tiered
kafka-get-offsets --topic orders --time 1700000000010
kafka-get-offsets --topic-partitions orders:0-2
kafka-delete-records --offset-json-file FILE:delete
kafka-get-offsets --topic orders --time earliest
kafka-topics --delete --topic orders
kafka-topics --delete --topic unknown
kafka-topics --list --exclude-internal
"""
FILES: Final = {
    "delete": {"partitions": [{"topic": "orders", "partition": 1, "offset": 5}], "version": 1},
    "elect": {"partitions": [{"topic": "orders", "partition": 0}]},
    "topics": {"topics": [{"topic": "orders"}], "version": 1},
    "to-itself": {"partitions": [{"topic": "orders", "partition": 0, "replicas": [1]}], "version": 1},
    "unknown-topic": {"partitions": [{"topic": "unknown", "partition": 0, "replicas": [1]}], "version": 1},
    "unknown-broker": {"partitions": [{"topic": "orders", "partition": 0, "replicas": [99]}], "version": 1},
}


# Addresses, directories, numbers, and what an Apache Kafka of one node has to be told.
OF_ONE_BROKER: Final = {
    "advertised.listeners",
    "broker.id",
    "controller.listener.names",
    "inter.broker.listener.name",
    "listener.security.protocol.map",
    "listeners",
    "log.dir",
    "log.dirs",
    "node.id",
    "offsets.topic.replication.factor",
    "process.roles",
    "transaction.state.log.min.isr",
    "transaction.state.log.replication.factor",
}
# There is no GSSAPI and no JKS here. Certificates and super users are shown: they are no secrets.
DIFFERENT_SECURITY: Final = {
    "sasl.enabled.mechanisms",
    "sasl.mechanism.inter.broker.protocol",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.type",
    "super.users",
}
# Listeners, TLS, SASL and users of all rights are changed in the broker's file; the others are Java classes, and parts
# that this broker does not have.
CHANGED_IN_THE_FILE: Final = (
    "config.providers",
    "cordoned.log.dirs",
    "listener",
    "max.connection.creation.rate",
    "principal.builder.class",
    "sasl.",
    "ssl.",
    "super.users",
)


@pytest.fixture(scope="module")
def apache_kafka(kafka_tools: KafkaTools) -> Iterator[ApacheKafka]:
    with ApacheKafka(config=SETTINGS_OF_BOTH) as kafka:
        yield kafka


@pytest.fixture
def own_broker() -> Iterator[Broker]:
    """A broker that no other test has changed."""
    with Broker(config=SETTINGS_OF_BOTH) as broker:
        yield broker


def test_the_same_commands_have_the_same_output(
    kafka_tools: KafkaTools, own_broker: Broker, apache_kafka: ApacheKafka, tmp_path: Path
) -> None:
    for name, content in FILES.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    ours = list(run_all(kafka_tools, own_broker, tmp_path))
    theirs = list(run_all(kafka_tools, apache_kafka, tmp_path))
    different = [
        f"{command}\n  here:   {here}\n  Apache: {there}"
        for (command, here), (_, there) in zip(ours, theirs, strict=True)
        if here != there
    ]
    assert not different, "\n".join(different)


def test_settings_of_brokers_are_described_alike(
    kafka_tools: KafkaTools, own_broker: Broker, apache_kafka: ApacheKafka
) -> None:
    """Those that both have: values, and the synonyms behind them."""
    here, there = (
        broker_settings(BrokerTools(kafka_tools, each.bootstrap_servers)) for each in (own_broker, apache_kafka)
    )
    shared = (here.keys() & there.keys()) - OF_ONE_BROKER - DIFFERENT_SECURITY
    assert len(shared) > 100
    different = [f"{name}\n  here:   {here[name]}\n  Apache: {there[name]}" for name in sorted(shared)]
    different = [each for name, each in zip(sorted(shared), different, strict=True) if here[name] != there[name]]
    assert not different, "\n".join(different)


def test_settings_of_brokers_are_changed_alike(own_broker: Broker, apache_kafka: ApacheKafka) -> None:
    """Every setting that Apache Kafka describes is given the value that it has there."""
    there, here = (AdminClient({"bootstrap.servers": each.bootstrap_servers}) for each in (apache_kafka, own_broker))
    resource = ConfigResource("broker", "1")
    known = there.describe_configs([resource])[resource].result(PATIENCE_S)
    wanted = {name: entry.value or "" for name, entry in known.items() if not name.startswith(CHANGED_IN_THE_FILE)}
    assert len(wanted) > 200
    different = {}
    for name, value in wanted.items():
        outcomes = [alteration(admin, name, value) for admin in (here, there)]
        if outcomes[0] != outcomes[1]:
            different[name] = outcomes
    assert different == {}


def alteration(admin: AdminClient, name: str, value: str) -> str:
    """The error of a change that is checked only, or ok."""
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource("broker", "1", incremental_configs=[entry])
    try:
        admin.incremental_alter_configs([resource], validate_only=True)[resource].result(PATIENCE_S)
    except confluent_kafka.KafkaException as refused:
        return str(refused.args[0].name())
    return "ok"


def broker_settings(tools: BrokerTools) -> dict[str, str]:
    described = tools.run("kafka-configs", "--describe", "--entity-type", "brokers", "--entity-name", "1", "--all")
    return dict(re.findall(r"^  (\S+?)=(.*)$", described, re.MULTILINE))


def run_all(tools: KafkaTools, broker: RunningBroker, files: Path) -> Iterator[tuple[str, object]]:
    """Every command with what is compared of its output."""
    own = BrokerTools(tools, broker.bootstrap_servers)

    def run(script: str) -> Iterator[tuple[str, object]]:
        for line in script.strip().splitlines():
            tool, *words = re.sub(r"FILE:(\S+)", rf"{files}/\1.json", line).replace("NODE", "1").split(" ")
            yield line, compared(own.finish(tool, *words), broker)

    yield from run(BEFORE_RECORDS)
    produce(broker)
    member = join(broker)
    yield from run(WITH_A_MEMBER)
    member.close()
    yield from run(AFTER_THE_MEMBER)
    yield from run(SETTINGS_AND_USERS)
    yield from run(ACLS)
    yield from run(RUNBOOKS)


def compared(finished: Finished, broker: RunningBroker) -> object:
    if errors := errors_in(finished.output):
        return finished.code, Counter(errors)
    text = finished.output.replace(broker.bootstrap_servers, "ADDRESS").replace(str(broker.data_dir), "DIRECTORY")
    text = re.sub(r"TopicId: \S+", "TopicId: ID", text)
    text = re.sub(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", "UUID", text)
    lines = [line for line in text.splitlines() if not STACK_TRACE_OR_LOG.match(line)]
    # Lines and words come in the order of Java's hashes.
    return finished.code, Counter(tuple(sorted(re.split(r"[\s,{}\[\]]+", line))) for line in lines)


def produce(broker: RunningBroker) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(100):
        producer.produce("orders", f"{number}", f"{number % 10}", partition=number % 3, timestamp=FIRST_MS + number)
    assert producer.flush(PATIENCE_S) == 0


def join(broker: RunningBroker) -> confluent_kafka.Consumer:
    """A member that has read and committed everything."""
    settings = {"group.id": "billing", "client.id": "reader", "auto.offset.reset": "earliest"}
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "enable.auto.commit": False, **settings}
    )
    consumer.subscribe(["orders"])
    received = 0
    while received < 100:
        messages = consumer.consume(100 - received, timeout=PATIENCE_S)
        assert messages
        received += len(messages)
    consumer.commit(asynchronous=False)
    return consumer

"""Transactions of clients that nobody here wrote: librdkafka (classic) and Java (KIP-890)."""

from __future__ import annotations

from uuid import uuid4

import confluent_kafka

from penstock.testing import Broker
from penstock.testing.apache_kafka import run_kafka_tool
from penstock.testing.java import JavaMissingError
from tests.conftest import optional_part_missing
from tests.integration.broker.conftest import NewTopic
from tests.integration.broker.transaction_conversation import committed_values, describe
from tests.wire_client import WireClient

PARTITIONS = 3


def producer(broker: Broker, transactional_id: str, **configs: object) -> confluent_kafka.Producer:
    made = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "transactional.id": transactional_id,
            "linger.ms": 1,
            "error_cb": lambda error: None,
            "reconnect.backoff.max.ms": 200,
            **configs,
        }
    )
    made.init_transactions(30)
    return made


def consumed(broker: Broker, topic: str, isolation_level: str) -> dict[int, list[bytes]]:
    """Everything that is there, by partition."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": uuid4().hex,
            "isolation.level": isolation_level,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    values: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, 0) for partition in values])
        ends: set[int] = set()
        while len(ends) < len(values):
            message = consumer.poll(30)
            assert message is not None, "a reader is stuck"
            error, partition, value = message.error(), message.partition(), message.value()
            assert partition is not None
            if error is None:
                assert value is not None
                values[partition].append(value)
            else:
                assert error.code() == confluent_kafka.KafkaError._PARTITION_EOF
                ends.add(partition)
    finally:
        consumer.close()
    return values


def test_isolation_levels(shared_broker: Broker, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=PARTITIONS).name
    writer = producer(shared_broker, uuid4().hex)
    expected: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    everything: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    for number in range(12):
        commits = number % 3 != 1
        writer.begin_transaction()
        for record in range(20):
            partition = record % PARTITIONS
            value = f"{number} {record}".encode()
            writer.produce(topic, value, partition=partition)
            everything[partition].append(value)
            if commits:
                expected[partition].append(value)
        if commits:
            writer.commit_transaction(30)
        else:
            writer.flush(30)
            writer.abort_transaction(30)
    assert consumed(shared_broker, topic, "read_committed") == expected
    assert consumed(shared_broker, topic, "read_uncommitted") == everything


def test_java_in_transactions(shared_broker: Broker, client: WireClient, new_topic: NewTopic) -> None:
    """Kafka's own load generator with the newest protocol: short transactions, one after the other."""
    topic = new_topic(partitions=PARTITIONS)
    transactional_id = uuid4().hex
    try:
        said = run_kafka_tool(
            "org.apache.kafka.tools.ProducerPerformance",
            [
                "--topic", topic.name, "--num-records", "2000", "--record-size", "100", "--throughput", "4000",
                "--bootstrap-server", shared_broker.bootstrap_servers,
                "--transactional-id", transactional_id, "--transaction-duration-ms", "50",
            ],
        )  # fmt: skip
    except JavaMissingError as error:
        optional_part_missing(str(error))
    assert "2000 records sent" in said
    found = [value for partition in range(PARTITIONS) for value in committed_values(client, topic, partition=partition)]
    assert len(found) == 2000
    state = describe(client, transactional_id)
    assert state.transaction_state == "CompleteCommit"
    assert state.producer_epoch > 3, "the epoch was bumped with every transaction"

"""Tools whose output is this broker's own: the quorum of one, features, log directories, an open transaction."""

from __future__ import annotations

import json
import re

import confluent_kafka
import pytest

from penstock.testing import Broker
from tests.kafka_tools.tools import BrokerTools

pytestmark = pytest.mark.clients

TIMEOUT_S = 30


def table(output: str) -> list[dict[str, str]]:
    """The rows of a table, by the names of its columns."""
    header, *rows = [[cell.strip() for cell in line.split("\t")] for line in output.splitlines() if line.strip()]
    return [dict(zip(header, row, strict=True)) for row in rows]


def test_the_quorum_has_one_voter_who_leads_it(tools: BrokerTools, broker: Broker) -> None:
    status = tools.run("kafka-metadata-quorum", "describe", "--status")
    lines = dict(line.split(":", 1) for line in status.splitlines())
    assert lines["LeaderId"].strip() == "1"
    assert lines["MaxFollowerLag"].strip() == "0"
    voters = json.loads(lines["CurrentVoters"])
    assert voters == [{"id": 1, "endpoints": [f"PLAINTEXT://{broker.bootstrap_servers}"]}]
    [replica] = table(tools.run("kafka-metadata-quorum", "describe", "--replication"))
    assert (replica["NodeId"], replica["Lag"], replica["Status"]) == ("1", "0", "Leader")


def test_features_are_at_their_highest_level(tools: BrokerTools) -> None:
    described = tools.run("kafka-features", "describe")
    assert re.findall(r"Feature: (\S+).*FinalizedVersionLevel: (\d+)", described) == [
        ("group.version", "1"),
        ("transaction.version", "2"),
    ]
    for change in (("downgrade", "--feature", "transaction.version=1"), ("upgrade", "--feature", "unknown.version=3")):
        refused = tools.finish("kafka-features", *change)
        assert refused.code == 1
        assert f"Could not {change[0]}" in refused.output


def test_the_cluster_and_its_log_directory(tools: BrokerTools, broker: Broker) -> None:
    assert re.fullmatch(r"Cluster ID: [\w-]{22}", tools.run("kafka-cluster", "cluster-id").strip())
    [_header, endpoint] = tools.run("kafka-cluster", "list-endpoints").splitlines()
    assert endpoint.split()[:3] == ["1", "127.0.0.1", str(broker.port)]
    assert "Produce(0)" in tools.run("kafka-broker-api-versions")
    tools.run("kafka-topics", "--create", "--topic", "stored", "--partitions", "2")
    printed = tools.run("kafka-log-dirs", "--describe", "--topic-list", "stored")
    [node] = json.loads(printed.splitlines()[-1])["brokers"]
    [directory] = node["logDirs"]
    assert (node["broker"], directory["error"], directory["logDir"]) == (1, None, str(broker.data_dir))
    assert {(each["partition"], each["size"]) for each in directory["partitions"]} == {("stored-0", 0), ("stored-1", 0)}


def test_a_transaction_is_found_and_aborted(tools: BrokerTools, broker: Broker) -> None:
    tools.run("kafka-topics", "--create", "--topic", "paid", "--partitions", "1")
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "payments", "log_level": 0}
    )
    producer.init_transactions(TIMEOUT_S)
    producer.begin_transaction()
    producer.produce("paid", "1")
    assert producer.flush(TIMEOUT_S) == 0
    [listed] = table(tools.run("kafka-transactions", "list"))
    assert (listed["TransactionalId"], listed["TransactionState"]) == ("payments", "Ongoing")
    [described] = table(tools.run("kafka-transactions", "describe", "--transactional-id", "payments"))
    assert (described["TopicPartitions"], described["ProducerId"]) == ("paid-0", listed["ProducerId"])
    partition = ("--topic", "paid", "--partition", "0")
    [active] = table(tools.run("kafka-transactions", "describe-producers", *partition))
    assert active["CurrentTransactionStartOffset"] == "0"
    assert table(tools.run("kafka-transactions", "find-hanging", "--broker-id", "1")) == []

    tools.run("kafka-transactions", "abort", *partition, "--start-offset", "0")
    [aborted] = table(tools.run("kafka-transactions", "describe-producers", *partition))
    assert aborted["CurrentTransactionStartOffset"] == "None"
    assert tools.run("kafka-get-offsets", "--topic", "paid").strip() == "paid:0:2"
    # Its coordinator still has it: this ends it, and fences its producer.
    tools.run("kafka-transactions", "forceTerminateTransaction", "--transactionalId", "payments")
    [ended] = table(tools.run("kafka-transactions", "list"))
    assert ended["TransactionState"] == "Empty"

"""CreateTopics, DeleteTopics, CreatePartitions."""

from __future__ import annotations

import errno
import os

import pytest

from penstock.core.ids import ZERO_TOPIC_ID, TopicName
from penstock.protocol.definitions.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from penstock.protocol.definitions.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from penstock.protocol.definitions.delete_topics import DeleteTopicsRequest, DeleteTopicState
from penstock.protocol.error_codes import ErrorCode
from tests.unit.broker.handlers.conftest import ClientMaker
from tests.unit.broker.handlers.requests import Client, versions_of


def topic(name: str, partitions: int = -1, replicas: int = -1, **configs: str | None) -> CreatableTopic:
    return CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()],
    )


def create(client: Client, *names: str, partitions: int = 1) -> None:
    response = client.ask(CreateTopicsRequest(topics=[topic(name, partitions) for name in names]))
    assert [result.error_code for result in response.topics] == [0] * len(names)


def fail_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    def pwrite(fd: int, content: memoryview, position: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", pwrite)


@pytest.mark.parametrize("version", versions_of(CreateTopicsRequest))
def test_topics_are_created_in_every_version(client: Client, version: int) -> None:
    response = client.ask(CreateTopicsRequest(topics=[topic("orders", 3, 1, retention_ms="5")]), version)
    [result] = response.topics
    assert (result.name, result.error_code, result.error_message) == ("orders", 0, None)
    image = client.node.image.topics[TopicName("orders")]
    assert len(image.partitions) == 3
    assert image.configs == {"retention.ms": "5"}
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
        shown = {config.name: (config.value, config.config_source) for config in result.configs}
        assert shown["retention.ms"] == ("5", 1)
        assert shown["segment.bytes"] == ("1073741824", 5)
    if version >= 7:
        assert result.topic_id == image.topic_id


def test_each_topic_is_judged_by_itself_and_the_good_ones_are_committed_together(client: Client) -> None:
    create(client, "existing")
    journal_commits = len(client.node.committed)
    response = client.ask(
        CreateTopicsRequest(
            topics=[
                topic("good"),
                topic("existing"),
                topic("bad name"),
                topic("many-replicas", 1, 2),
                topic("no-partitions", 0),
                topic("unknown-config", 1, 1, retension_ms="5"),
                topic("null-config", 1, 1, retention_ms=None),
                CreatableTopic(
                    name="assigned",
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=[9])],
                ),
                topic("also-good"),
            ]
        )
    )
    assert {result.name: result.error_code for result in response.topics} == {
        "good": ErrorCode.NONE,
        "existing": ErrorCode.TOPIC_ALREADY_EXISTS,
        "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "many-replicas": ErrorCode.INVALID_REPLICATION_FACTOR,
        "no-partitions": ErrorCode.INVALID_PARTITIONS,
        "unknown-config": ErrorCode.INVALID_CONFIG,
        "null-config": ErrorCode.INVALID_CONFIG,
        "assigned": ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "also-good": ErrorCode.NONE,
    }
    messages = {result.name: result.error_message for result in response.topics}
    assert "did you mean retention.ms" in messages["unknown-config"]
    assert len(client.node.committed) == journal_commits + 2


def test_a_topic_that_is_given_twice_is_not_created(client: Client) -> None:
    response = client.ask(CreateTopicsRequest(topics=[topic("twice"), topic("twice")]))
    assert [(result.name, result.error_code) for result in response.topics] == [("twice", ErrorCode.INVALID_REQUEST)]
    assert not client.node.image.topics


def test_validation_alone_creates_nothing(client: Client) -> None:
    response = client.ask(CreateTopicsRequest(topics=[topic("orders", 4), topic("bad name")], validate_only=True))
    assert [result.error_code for result in response.topics] == [0, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert response.topics[0].num_partitions == 4
    assert response.topics[0].topic_id == ZERO_TOPIC_ID
    assert not client.node.image.topics


def test_the_brokers_defaults_hold_where_the_client_says_nothing(client_with: ClientMaker) -> None:
    client = client_with({"num.partitions": "7", "log.retention.hours": "1"})
    response = client.ask(CreateTopicsRequest(topics=[topic("orders")]))
    assert response.topics[0].num_partitions == 7
    shown = {config.name: (config.value, config.config_source) for config in response.topics[0].configs}
    assert shown["retention.ms"] == ("3600000", 4)


def test_a_full_disk_creates_nothing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        fail_to_write(patch)
        response = client.ask(CreateTopicsRequest(topics=[topic("orders"), topic("bad name")]))
    assert [result.error_code for result in response.topics] == [
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    assert not client.node.image.topics
    create(client, "orders")


@pytest.mark.parametrize("version", versions_of(DeleteTopicsRequest))
def test_topics_are_deleted_by_name_in_every_version(client: Client, version: int) -> None:
    create(client, "orders", "payments")
    if version >= 6:
        request = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders"), DeleteTopicState(name="none")])
    else:
        request = DeleteTopicsRequest(topic_names=["orders", "none"])
    response = client.ask(request, version)
    assert [(result.name, result.error_code) for result in response.responses] == [
        ("orders", 0),
        ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert list(client.node.image.topics) == ["payments"]


def test_topics_are_deleted_by_id(client: Client) -> None:
    create(client, "orders")
    topic_id = client.node.image.topics[TopicName("orders")].topic_id
    unknown = b"\x07" * 16
    response = client.ask(
        DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=topic_id), DeleteTopicState(topic_id=unknown)])
    )
    assert [(result.name, result.topic_id, result.error_code) for result in response.responses] == [
        ("orders", topic_id, 0),
        (None, unknown, ErrorCode.UNKNOWN_TOPIC_ID),
    ]
    assert not client.node.image.topics


def test_a_topic_must_be_named_once_and_in_one_way(client: Client) -> None:
    create(client, "orders", "payments")
    orders, payments = client.node.image.topics.values()
    response = client.ask(
        DeleteTopicsRequest(
            topics=[
                DeleteTopicState(name="orders"),
                DeleteTopicState(topic_id=orders.topic_id),
                DeleteTopicState(name="payments", topic_id=payments.topic_id),
                DeleteTopicState(),
            ]
        )
    )
    assert [result.error_code for result in response.responses] == [ErrorCode.INVALID_REQUEST] * 4
    assert len(client.node.image.topics) == 2


@pytest.mark.parametrize(("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
def test_deletion_can_be_switched_off(client_with: ClientMaker, version: int, code: ErrorCode) -> None:
    client = client_with({"delete.topic.enable": "false"})
    create(client, "orders")
    response = client.ask(DeleteTopicsRequest(topic_names=["orders"]), version)
    assert response.responses[0].error_code == code
    assert client.node.image.topics


def test_a_full_disk_deletes_nothing(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    create(client, "orders")
    fail_to_write(monkeypatch)
    response = client.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="orders")]))
    assert response.responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert client.node.image.topics


@pytest.mark.parametrize("version", versions_of(CreatePartitionsRequest))
def test_partitions_are_added_in_every_version(client: Client, version: int) -> None:
    create(client, "orders", "payments", partitions=2)
    response = client.ask(
        CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(name="orders", count=5),
                CreatePartitionsTopic(
                    name="payments", count=3, assignments=[CreatePartitionsAssignment(broker_ids=[1])]
                ),
            ]
        ),
        version,
    )
    assert [(result.name, result.error_code) for result in response.results] == [("orders", 0), ("payments", 0)]
    assert [len(image.partitions) for image in client.node.image.topics.values()] == [5, 3]


def test_partitions_that_are_not_added(client: Client) -> None:
    create(client, "orders", "payments", "fine", partitions=2)
    response = client.ask(
        CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(name="none", count=5),
                CreatePartitionsTopic(name="orders", count=1),
                CreatePartitionsTopic(
                    name="payments", count=3, assignments=[CreatePartitionsAssignment(broker_ids=[2])]
                ),
                CreatePartitionsTopic(name="fine", count=10_002),
            ]
        )
    )
    assert [(result.error_code, result.error_message is not None) for result in response.results] == [
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        (ErrorCode.INVALID_PARTITIONS, True),
        (ErrorCode.INVALID_REPLICA_ASSIGNMENT, True),
        (ErrorCode.NONE, False),
    ]
    twice = [CreatePartitionsTopic(name="orders", count=5), CreatePartitionsTopic(name="orders", count=6)]
    response = client.ask(CreatePartitionsRequest(topics=twice))
    assert {result.error_code for result in response.results} == {ErrorCode.INVALID_REQUEST}


def test_one_request_cannot_add_more_partitions_than_the_limit(client: Client) -> None:
    create(client, "orders", "payments")
    response = client.ask(
        CreatePartitionsRequest(
            topics=[
                CreatePartitionsTopic(name="orders", count=9_001),
                CreatePartitionsTopic(name="payments", count=1_002),
            ],
            validate_only=True,
        )
    )
    assert [result.error_code for result in response.results] == [0, ErrorCode.POLICY_VIOLATION]
    assert len(client.node.image.topics[TopicName("orders")].partitions) == 1


def test_a_full_disk_adds_no_partitions(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    create(client, "orders")
    fail_to_write(monkeypatch)
    response = client.ask(CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="orders", count=2)]))
    assert response.results[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(client.node.image.topics[TopicName("orders")].partitions) == 1

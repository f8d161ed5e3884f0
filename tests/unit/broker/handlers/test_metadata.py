"""Metadata, DescribeTopicPartitions, DescribeCluster, InitProducerId, and what FindCoordinator refuses."""

from __future__ import annotations

import errno
import os

import pytest

from penstock.core.ids import ZERO_TOPIC_ID, BrokerId, LeaderEpoch, PartitionIndex, TopicId, TopicName
from penstock.metadata.changes import PartitionImage, TopicCreated, TopicImage
from penstock.protocol.definitions.describe_cluster import DescribeClusterRequest
from penstock.protocol.definitions.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    RequestCursor,
    TopicRequest,
)
from penstock.protocol.definitions.find_coordinator import FindCoordinatorRequest
from penstock.protocol.definitions.init_producer_id import InitProducerIdRequest
from penstock.protocol.definitions.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.error_codes import ErrorCode
from tests.unit.broker.handlers.conftest import ClientMaker
from tests.unit.broker.handlers.requests import Client, versions_of
from tests.unit.broker.handlers.test_topic_administration import create, fail_to_write

NOT_ASKED_FOR = -(2**31)


def asking_for(*names: str, **options: bool) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], **options)


@pytest.mark.parametrize("version", versions_of(MetadataRequest))
def test_brokers_and_topics_in_every_version(client: Client, version: int) -> None:
    create(client, "orders", partitions=2)
    response = client.ask(asking_for("orders"), version)
    [broker] = response.brokers
    assert (broker.node_id, broker.host, broker.port) == (1, "broker.test", 9092)
    [topic] = response.topics
    assert (topic.name, topic.error_code, topic.is_internal) == ("orders", 0, False)
    assert [partition.partition_index for partition in topic.partitions] == [0, 1]
    for partition in topic.partitions:
        assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (1, [1], [1])
        assert partition.offline_replicas == []
        assert partition.leader_epoch == (0 if version >= 7 else -1)
    assert response.controller_id == (1 if version >= 1 else -1)
    assert response.cluster_id == ("test-cluster" if version >= 2 else None)
    if version >= 10:
        assert topic.topic_id == client.node.image.topics[TopicName("orders")].topic_id


def test_all_topics_are_asked_for_by_an_empty_list_at_first_and_by_none_later(client: Client) -> None:
    create(client, "orders", "payments")
    assert len(client.ask(MetadataRequest(topics=[]), 0).topics) == 2
    for version in range(1, 14):
        assert client.ask(MetadataRequest(topics=[]), version).topics == []
        assert len(client.ask(MetadataRequest(topics=None), version).topics) == 2


@pytest.mark.parametrize("version", versions_of(MetadataRequest))
def test_a_missing_topic_is_created_with_the_brokers_defaults(client_with: ClientMaker, version: int) -> None:
    client = client_with({"num.partitions": "3"})
    response = client.ask(asking_for("orders"), version)
    [topic] = response.topics
    assert (topic.error_code, len(topic.partitions)) == (0, 3)
    assert len(client.node.image.topics[TopicName("orders")].partitions) == 3


def test_a_missing_topic_is_not_created_where_client_or_broker_forbid_it(client: Client) -> None:
    response = client.ask(asking_for("orders", "bad name", allow_auto_topic_creation=False))
    assert [topic.error_code for topic in response.topics] == [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]
    assert not client.node.image.topics


def test_auto_creation_can_be_switched_off(client_with: ClientMaker) -> None:
    client = client_with({"auto.create.topics.enable": "false"})
    for version in (0, 3, 13):
        assert client.ask(asking_for("orders"), version).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not client.node.image.topics


def test_topics_that_cannot_be_created_say_why(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    create(client, "a.b")
    response = client.ask(asking_for("bad name", "a_b", "__consumer_offsets", "good"))
    assert {topic.name: (topic.error_code, topic.is_internal) for topic in response.topics} == {
        "bad name": (ErrorCode.INVALID_TOPIC_EXCEPTION, False),
        "a_b": (ErrorCode.INVALID_TOPIC_EXCEPTION, False),
        "__consumer_offsets": (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True),
        "good": (ErrorCode.NONE, False),
    }
    fail_to_write(monkeypatch)
    assert client.ask(asking_for("new")).topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_the_default_replication_factor_must_be_possible(client_with: ClientMaker) -> None:
    client = client_with({"default.replication.factor": "3"})
    assert client.ask(asking_for("orders")).topics[0].error_code == ErrorCode.INVALID_REPLICATION_FACTOR


def test_a_topic_that_is_asked_for_twice_is_answered_once(client: Client) -> None:
    assert len(client.ask(asking_for(*["orders"] * 50)).topics) == 1


@pytest.mark.parametrize("version", [12, 13])
def test_topics_by_id(client: Client, version: int) -> None:
    create(client, "orders")
    topic_id = client.node.image.topics[TopicName("orders")].topic_id
    wanted = [
        MetadataRequestTopic(topic_id=topic_id, name=None),
        MetadataRequestTopic(topic_id=b"\x07" * 16, name=None),
        MetadataRequestTopic(topic_id=ZERO_TOPIC_ID, name=None),
    ]
    response = client.ask(MetadataRequest(topics=wanted), version)
    assert [(topic.name, topic.topic_id, topic.error_code) for topic in response.topics] == [
        ("orders", topic_id, 0),
        (None, b"\x07" * 16, ErrorCode.UNKNOWN_TOPIC_ID),
        (None, ZERO_TOPIC_ID, ErrorCode.INVALID_REQUEST),
    ]


@pytest.mark.parametrize("version", [10, 11])
def test_topic_ids_are_refused_where_kafka_refuses_them(client: Client, version: int) -> None:
    create(client, "orders")
    topic_id = client.node.image.topics[TopicName("orders")].topic_id
    response = client.ask(MetadataRequest(topics=[MetadataRequestTopic(topic_id=topic_id, name=None)]), version)
    assert [(topic.name, topic.error_code) for topic in response.topics] == [("", ErrorCode.INVALID_REQUEST)]


def test_allowed_operations_are_told_to_those_who_ask(client: Client) -> None:
    create(client, "orders")
    response = client.ask(asking_for("orders"), 8)
    assert response.cluster_authorized_operations == NOT_ASKED_FOR
    assert response.topics[0].topic_authorized_operations == NOT_ASKED_FOR
    response = client.ask(
        asking_for("orders", include_cluster_authorized_operations=True, include_topic_authorized_operations=True), 8
    )
    # The numbers that a Kafka broker without an authorizer answers.
    assert response.cluster_authorized_operations == 0b1_1111_1010_0000
    assert response.topics[0].topic_authorized_operations == 0b0_1101_1111_1000


def test_a_partition_whose_leader_is_gone(client: Client) -> None:
    replicas = (BrokerId(2), BrokerId(1))
    partition = PartitionImage(PartitionIndex(0), BrokerId(2), LeaderEpoch(5), replicas, replicas)
    topic_id = TopicId(client.node.entropy.uuid())
    client.node.store.commit([TopicCreated(TopicImage(TopicName("orders"), topic_id, (partition,)))])
    [shown] = client.ask(asking_for("orders")).topics[0].partitions
    assert (shown.error_code, shown.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
    assert shown.offline_replicas == [2]
    [described] = client.ask(describing("orders")).topics[0].partitions
    assert (described.error_code, described.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)


def describing(*names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> DescribeTopicPartitionsRequest:
    return DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else RequestCursor(topic_name=cursor[0], partition_index=cursor[1]),
    )


def test_partitions_are_described_page_by_page(client: Client) -> None:
    for name, count in (("b", 3), ("a", 2), ("c", 1)):
        create(client, name, partitions=count)
    seen: list[tuple[str, int]] = []
    pages = 0
    cursor: tuple[str, int] | None = None
    while True:
        response = client.ask(describing(limit=2, cursor=cursor))
        pages += 1
        page = [(topic.name, entry.partition_index) for topic in response.topics for entry in topic.partitions]
        assert len(page) <= 2
        seen.extend(page)
        if response.next_cursor is None:
            break
        cursor = (response.next_cursor.topic_name, response.next_cursor.partition_index)
    assert seen == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("c", 0)]
    assert pages == 3


def test_named_topics_are_described_in_order_with_what_is_wrong(client: Client) -> None:
    create(client, "b", "a")
    response = client.ask(describing("b", "none", "bad name", "a"))
    assert [(topic.name, topic.error_code) for topic in response.topics] == [
        ("a", 0),
        ("b", 0),
        ("bad name", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ("none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert response.next_cursor is None


def test_the_broker_bounds_a_page(client_with: ClientMaker) -> None:
    client = client_with({"max.request.partition.size.limit": "3"})
    create(client, "orders", partitions=5)
    response = client.ask(describing("orders"))
    assert len(response.topics[0].partitions) == 3
    assert (response.next_cursor.topic_name, response.next_cursor.partition_index) == ("orders", 3)


def test_impossible_pages_are_refused(client: Client) -> None:
    create(client, "orders")
    assert len(client.ask(describing("orders", limit=0)).topics[0].partitions) == 1
    assert client.ask(describing("orders", cursor=("orders", -1))).topics[0].error_code == ErrorCode.INVALID_REQUEST
    assert client.ask(describing("orders", cursor=("orders", 2**31 - 1))).topics[0].partitions == []


@pytest.mark.parametrize("version", versions_of(DescribeClusterRequest))
def test_the_cluster_is_described_in_every_version(client: Client, version: int) -> None:
    response = client.ask(DescribeClusterRequest(), version)
    assert (response.error_code, response.cluster_id, response.controller_id) == (0, "test-cluster", 1)
    [broker] = response.brokers
    assert (broker.broker_id, broker.host, broker.port, broker.rack) == (1, "broker.test", 9092, "rack-1")
    assert response.cluster_authorized_operations == NOT_ASKED_FOR
    response = client.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), version)
    assert response.cluster_authorized_operations == 0b1_1111_1010_0000


@pytest.mark.parametrize(
    ("endpoint_type", "code"), [(2, ErrorCode.MISMATCHED_ENDPOINT_TYPE), (9, ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)]
)
def test_other_endpoints_are_not_offered(client: Client, endpoint_type: int, code: ErrorCode) -> None:
    response = client.ask(DescribeClusterRequest(endpoint_type=endpoint_type))
    assert (response.error_code, response.endpoint_type, response.brokers) == (code, endpoint_type, [])


@pytest.mark.parametrize("key_type", [2, 9, -1])
def test_other_coordinators_are_refused_with_a_reason(client: Client, key_type: int) -> None:
    response = client.ask(FindCoordinatorRequest(key="key", key_type=key_type), 3)
    assert (response.error_code, response.node_id) == (ErrorCode.INVALID_REQUEST, -1)
    assert response.error_message
    [found] = client.ask(FindCoordinatorRequest(coordinator_keys=["key"], key_type=key_type)).coordinators
    assert (found.key, found.error_code, found.node_id) == ("key", ErrorCode.INVALID_REQUEST, -1)
    assert found.error_message


@pytest.mark.parametrize("version", versions_of(InitProducerIdRequest))
def test_every_producer_gets_an_id_of_its_own(client: Client, version: int) -> None:
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000)
    answers = [client.ask(request, version) for _ in range(3)]
    assert [(answer.error_code, answer.producer_id, answer.producer_epoch) for answer in answers] == [
        (0, 0, 0),
        (0, 1, 0),
        (0, 2, 0),
    ]


def test_no_id_is_given_that_could_not_be_noted(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def pwrite(fd: int, content: memoryview, position: int) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pwrite", pwrite)
    response = client.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000))
    assert (response.error_code, response.producer_id) == (ErrorCode.KAFKA_STORAGE_ERROR, -1)

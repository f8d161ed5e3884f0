"""Every answer that names a broker names it by the listener that the client came in by."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.current_leader import CurrentLeader, current_leader
from penstock.broker.request_context import RequestContext
from penstock.broker.router import BY_API_KEY
from penstock.core.ids import BrokerId, LeaderEpoch, PartitionIndex, TopicId, TopicName
from penstock.metadata.changes import BrokerImage, BrokerRegistered, Endpoint, PartitionImage, TopicCreated, TopicImage
from penstock.metadata.topics import NewTopic
from penstock.protocol.definitions.describe_cluster import DescribeClusterRequest
from penstock.protocol.definitions.fetch import FetchPartition, FetchRequest, FetchTopic
from penstock.protocol.definitions.find_coordinator import FindCoordinatorRequest
from penstock.protocol.definitions.metadata import MetadataRequest
from penstock.protocol.error_codes import ErrorCode
from tests.unit.broker.handlers.requests import AdminNode, Client, ask
from tests.unit.broker.nodes import FakeConnection, make_topics, must_succeed, node_in

ENDPOINTS = {"INTERNAL": Endpoint("10.0.0.1", 9092), "EXTERNAL": Endpoint("broker.example", 19092)}


@pytest.fixture
def node(tmp_path: Path) -> Any:
    node = AdminNode(tmp_path, {})
    node.image.apply(BrokerRegistered(BrokerImage(node.broker_id, ENDPOINTS, "rack")))
    yield node
    node.store.close()


@pytest.mark.parametrize("listener_name", ENDPOINTS)
def test_brokers_are_named_by_the_client_s_own_listener(node: AdminNode, listener_name: str) -> None:
    client = Client(node, FakeConnection(listener_name))
    expected = ENDPOINTS[listener_name]
    (broker,) = client.ask(MetadataRequest(topics=[])).brokers
    assert Endpoint(broker.host, broker.port) == expected
    (broker,) = client.ask(DescribeClusterRequest()).brokers
    assert Endpoint(broker.host, broker.port) == expected


@pytest.mark.parametrize("listener_name", ENDPOINTS)
def test_coordinators_are_named_by_the_client_s_own_listener(tmp_path: Path, listener_name: str) -> None:
    expected = ENDPOINTS[listener_name]

    async def main() -> None:
        with node_in(tmp_path) as node:
            node.register(ENDPOINTS, must_succeed)
            request = FindCoordinatorRequest(key_type=0, coordinator_keys=["group"])
            (found,) = ask(node, request, connection=FakeConnection(listener_name)).coordinators
            assert Endpoint(found.host, found.port) == expected
            old = ask(node, FindCoordinatorRequest(key="group"), 3, FakeConnection(listener_name))
            assert Endpoint(old.host, old.port) == expected
            (found,) = ask(node, request, connection=FakeConnection("OTHER")).coordinators
            assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)

    asyncio.run(main())


def test_a_broker_without_the_client_s_listener_is_not_named(node: AdminNode) -> None:
    client = Client(node, FakeConnection("OTHER"))
    assert client.ask(MetadataRequest(topics=[])).brokers == []
    assert client.ask(DescribeClusterRequest()).brokers == []


def test_a_fetch_in_an_old_leader_epoch_is_told_the_leader_and_where_it_is(tmp_path: Path) -> None:
    async def main() -> None:
        with node_in(tmp_path) as node:
            make_topics(node, NewTopic("topic", 1, 1))
            node.register(ENDPOINTS, must_succeed)
            partition = node.topics.partition("topic", 0)
            partition.leader_epoch = LeaderEpoch(3)
            wanted = FetchPartition(partition=0, partition_max_bytes=1000, current_leader_epoch=1)
            request = FetchRequest(
                session_epoch=-1,
                max_bytes=1000,
                topics=[FetchTopic(topic_id=partition.topic_id, partitions=[wanted])],
            )
            context = RequestContext(node, 16, "client", FakeConnection("EXTERNAL"))
            answer = BY_API_KEY[1].handle(request, context)
            (data,) = answer.responses[0].partitions
            assert (data.error_code, data.current_leader.leader_id) == (ErrorCode.FENCED_LEADER_EPOCH, node.broker_id)
            (endpoint,) = answer.node_endpoints
            assert (endpoint.node_id, endpoint.host, endpoint.port) == (node.broker_id, "broker.example", 19092)

    asyncio.run(main())


@pytest.mark.parametrize(("version", "code"), [(5, ErrorCode.LEADER_NOT_AVAILABLE), (6, ErrorCode.LISTENER_NOT_FOUND)])
def test_a_leader_without_the_client_s_listener_is_none(node: AdminNode, version: int, code: ErrorCode) -> None:
    partition = PartitionImage(
        PartitionIndex(0), node.broker_id, LeaderEpoch(3), replicas=(node.broker_id,), isr=(node.broker_id,)
    )
    node.image.apply(TopicCreated(TopicImage(TopicName("topic"), TopicId(b"0123456789abcdef"), (partition,))))
    (topic,) = Client(node, FakeConnection("OTHER")).ask(MetadataRequest(topics=None), version).topics
    assert (topic.partitions[0].error_code, topic.partitions[0].leader_id) == (code, -1)
    (topic,) = Client(node, FakeConnection("EXTERNAL")).ask(MetadataRequest(topics=None), version).topics
    assert (topic.partitions[0].error_code, topic.partitions[0].leader_id) == (ErrorCode.NONE, node.broker_id)


def test_the_current_leader_of_a_partition_comes_with_its_endpoint(node: AdminNode) -> None:
    led = PartitionImage(
        PartitionIndex(0), node.broker_id, LeaderEpoch(3), replicas=(node.broker_id,), isr=(node.broker_id,)
    )
    elsewhere = replace(led, index=PartitionIndex(1), leader=BrokerId(9))
    topic_id = TopicId(b"0123456789abcdef")
    node.image.apply(TopicCreated(TopicImage(TopicName("topic"), topic_id, (led, elsewhere))))
    context = RequestContext(node, 16, "client", FakeConnection("EXTERNAL"))  # type: ignore[arg-type]
    expected = CurrentLeader(node.broker_id, 3, "broker.example", 19092, "rack")
    assert current_leader(context, "topic", 0) == current_leader(context, topic_id, 0) == expected
    assert current_leader(context, "topic", 1) is None, "broker 9 is not up"
    assert current_leader(context, "topic", 2) is None
    assert current_leader(context, "unknown", 0) is None

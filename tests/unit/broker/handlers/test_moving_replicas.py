"""Leaders and replicas that an administrator moves between brokers, and brokers that leave for good."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from penstock.core.ids import BrokerId
from penstock.metadata.changes import BrokerGone, PartitionImage, TopicCreated, TopicImage
from penstock.protocol.definitions.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.definitions.elect_leaders import ElectLeadersRequest, TopicPartitions
from penstock.protocol.definitions.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from penstock.protocol.definitions.unregister_broker import UnregisterBrokerRequest
from penstock.protocol.error_codes import ErrorCode
from tests.unit.broker.handlers.requests import AdminNode, Client
from tests.unit.metadata.clusters import ORDERS, ORDERS_ID, shown, state
from tests.unit.metadata.images import registered

PREFERRED, UNCLEAN = 0, 1


def client_of(directory: Path, partition: PartitionImage, *brokers: int, down: int | None = None) -> Client:
    """Of broker 1, beside others, with a topic `orders` of one partition."""
    node = AdminNode(directory, {})
    node.store.commit([registered(broker_id) for broker_id in (*brokers, *([] if down is None else [down]))])
    node.store.commit([TopicCreated(TopicImage(ORDERS, ORDERS_ID, (partition,)))])
    if down is not None:
        node.store.commit([BrokerGone(BrokerId(down), down)])
    return Client(node)


def partition_of(client: Client) -> PartitionImage:
    return client.node.image.topics[ORDERS].partitions[0]


def elect(client: Client, election: int, *, everywhere: bool = False) -> list[tuple[str, int, int]]:
    wanted = None if everywhere else [TopicPartitions(topic="orders", partitions=[0, 1])]
    answer = client.ask(ElectLeadersRequest(election_type=election, topic_partitions=wanted))
    assert answer.error_code == ErrorCode.NONE
    return [
        (result.topic, each.partition_id, each.error_code)
        for result in answer.replica_election_results
        for each in result.partition_result
    ]


@pytest.mark.parametrize("everywhere", [False, True])
def test_the_preferred_replica_is_elected(tmp_path: Path, everywhere: bool) -> None:
    client = client_of(tmp_path, state(1, "12", replicas="21"), 2)
    results = elect(client, PREFERRED, everywhere=everywhere)
    assert results[0] == ("orders", 0, ErrorCode.NONE)
    assert results[1:] == ([] if everywhere else [("orders", 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)])
    assert shown(partition_of(client)) == "2/1 isr=12 elr="


def test_an_unclean_election_takes_a_replica_that_may_lack_records(tmp_path: Path) -> None:
    client = client_of(tmp_path, state(-1, "", elr="2", replicas="21", leader_epoch=3), down=2)
    assert elect(client, PREFERRED)[0][2] == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert elect(client, UNCLEAN)[0][2] == ErrorCode.NONE
    assert shown(partition_of(client)) == "1/4 isr=1 elr="


def reassign(client: Client, *targets: list[int] | None, index: int = 0) -> list[int]:
    """Once for each entry of the request."""
    partitions = [ReassignablePartition(partition_index=index, replicas=replicas) for replicas in targets]
    wanted = [ReassignableTopic(name="orders", partitions=partitions)]
    answer = client.ask(AlterPartitionReassignmentsRequest(topics=wanted))
    [result] = answer.responses
    return [each.error_code for each in result.partitions]


def listed(client: Client, wanted: list[ListPartitionReassignmentsTopics] | None = None) -> list[Any]:
    answer = client.ask(ListPartitionReassignmentsRequest(topics=wanted))
    return [
        (topic.name, each.partition_index, each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in answer.topics
        for each in topic.partitions
    ]


def test_a_reassignment_is_listed_until_it_is_cancelled(tmp_path: Path) -> None:
    client = client_of(tmp_path, state(1, "12", replicas="12"), 2, 3)
    assert reassign(client, [3, 2]) == [ErrorCode.NONE]
    ongoing = [("orders", 0, [3, 2, 1], [3], [1])]
    assert listed(client) == ongoing
    assert listed(client, [ListPartitionReassignmentsTopics(name="orders", partition_indexes=[0, 7])]) == ongoing
    assert listed(client, [ListPartitionReassignmentsTopics(name="payments", partition_indexes=[0])]) == []
    assert reassign(client, None) == [ErrorCode.NONE]
    assert listed(client) == []
    assert partition_of(client).replicas == (2, 1)
    assert reassign(client, None) == [ErrorCode.NO_REASSIGNMENT_IN_PROGRESS]


def test_each_partition_of_a_request_is_answered_by_itself(tmp_path: Path) -> None:
    client = client_of(tmp_path, state(1, "12", replicas="12"), 2, 3)
    assert reassign(client, [1, 9]) == [ErrorCode.INVALID_REPLICA_ASSIGNMENT]
    assert reassign(client, [3, 2], [2, 1]) == [ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert reassign(client, [1], index=4) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_broker_that_is_down_leaves_for_good(tmp_path: Path) -> None:
    client = client_of(tmp_path, state(1, "13"), 2, down=3)
    assert client.ask(UnregisterBrokerRequest(broker_id=3)).error_code == ErrorCode.NONE
    assert BrokerId(3) not in client.node.image.known_brokers
    assert shown(partition_of(client)) == "1/0 isr=1 elr="


@pytest.mark.parametrize(
    ("broker_id", "code"), [(1, ErrorCode.INVALID_REQUEST), (3, ErrorCode.BROKER_ID_NOT_REGISTERED)]
)
def test_a_broker_that_runs_or_is_unknown_is_not_unregistered(tmp_path: Path, broker_id: int, code: ErrorCode) -> None:
    client = client_of(tmp_path, state(1, "1"), 2)
    answer = client.ask(UnregisterBrokerRequest(broker_id=broker_id))
    assert answer.error_code == code
    assert str(broker_id) in answer.error_message

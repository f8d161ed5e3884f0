"""Requests about replicas: what is sent, what is read, and pages of DescribeTopicPartitions."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.core.ids import TopicPartition
from penstock.protocol.definitions.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from penstock.protocol.definitions.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    ResponseCursor,
)
from penstock.protocol.definitions.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from penstock.protocol.definitions.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.schema import Message
from penstock.wire.cluster import Cluster
from penstock.wire.replicas import (
    ElectionType,
    alter_reassignments,
    describe_replicas,
    elect_leaders,
    unregister_broker,
)


class OneBroker:
    """Answers with what a function says, and remembers the requests."""

    def __init__(self, answer: Callable[[Any], Message]) -> None:
        self._answer = answer
        self.requests: list[Any] = []
        self.versions_at_least: list[int] = []
        self.settings = SimpleNamespace(times_ms={"request.timeout.ms": 30_000})

    def ask_any(self, _subject: str, attempt: Callable[[Any], Any], _timeout_s: float | None) -> Any:
        return attempt(self)

    def version_for(self, request: type[Message], *, at_least: int = 0) -> int:
        self.versions_at_least.append(at_least)
        return request.VERSIONS[1]

    def ask(self, request: Any, _version: int) -> Message:
        self.requests.append(request)
        return self._answer(request)


def as_cluster(broker: OneBroker) -> Cluster:
    return cast(Cluster, broker)


def partition(index: int, **fields: Any) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(partition_index=index, **fields)


def test_replicas_are_read_page_by_page() -> None:
    def answer(request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
        page = 0 if request.cursor is None else request.cursor.partition_index
        return DescribeTopicPartitionsResponse(
            topics=[
                DescribeTopicPartitionsResponseTopic(
                    name="orders", partitions=[partition(page, leader_id=1, replica_nodes=[1, 2], isr_nodes=[1])]
                )
            ],
            next_cursor=None if page == 2 else ResponseCursor(topic_name="orders", partition_index=page + 1),
        )

    broker = OneBroker(answer)
    found = describe_replicas(as_cluster(broker), ["orders"], None)
    assert list(found) == [TopicPartition("orders", number) for number in range(3)]
    assert len(broker.requests) == 3
    assert all(each.is_under_replicated and not each.is_offline for each in found.values())
    assert found[TopicPartition("orders", 0)].elr is None


def test_replica_sets_that_the_broker_knows_to_be_empty_are_not_unknown() -> None:
    def answer(_request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
        parts = [partition(0, leader_id=-1, replica_nodes=[3], eligible_leader_replicas=[], last_known_elr=[3])]
        missing = DescribeTopicPartitionsResponseTopic(name="none", error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return DescribeTopicPartitionsResponse(
            topics=[missing, DescribeTopicPartitionsResponseTopic(name="orders", partitions=parts)]
        )

    (found,) = describe_replicas(as_cluster(OneBroker(answer)), ["none", "orders"], None).values()
    assert (found.elr, found.last_known_elr, found.is_offline) == ((), (3,), True)


@pytest.mark.parametrize(("kind", "at_least"), [(ElectionType.PREFERRED, 0), (ElectionType.UNCLEAN, 1)])
def test_an_election_has_an_outcome_for_each_partition(kind: ElectionType, at_least: int) -> None:
    def answer(_request: ElectLeadersRequest) -> ElectLeadersResponse:
        refused = PartitionResult(partition_id=1, error_code=ErrorCode.ELECTION_NOT_NEEDED, error_message="led")
        results = [ReplicaElectionResult(topic="orders", partition_result=[PartitionResult(partition_id=0), refused])]
        return ElectLeadersResponse(replica_election_results=results)

    broker = OneBroker(answer)
    wanted = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
    outcomes = elect_leaders(as_cluster(broker), kind, wanted, None)
    assert outcomes[wanted[0]] is None
    refusal = outcomes[wanted[1]]
    assert refusal is not None
    assert (refusal.code, refusal.message) == (ErrorCode.ELECTION_NOT_NEEDED, "led")
    assert broker.requests[0].election_type == kind
    assert [(each.topic, each.partitions) for each in broker.requests[0].topic_partitions] == [("orders", [0, 1])]
    assert broker.versions_at_least == [at_least]


def test_none_asks_for_elections_everywhere() -> None:
    broker = OneBroker(lambda _request: ElectLeadersResponse())
    assert elect_leaders(as_cluster(broker), ElectionType.PREFERRED, None, None) == {}
    assert broker.requests[0].topic_partitions is None


def test_a_reassignment_names_replicas_and_a_cancellation_none() -> None:
    def answer(request: AlterPartitionReassignmentsRequest) -> AlterPartitionReassignmentsResponse:
        return AlterPartitionReassignmentsResponse(
            responses=[
                ReassignableTopicResponse(
                    name=topic.name,
                    partitions=[
                        ReassignablePartitionResponse(partition_index=each.partition_index) for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    broker = OneBroker(answer)
    targets = {TopicPartition("a", 0): [1, 2], TopicPartition("b", 3): None}
    assert alter_reassignments(as_cluster(broker), targets, None) == dict.fromkeys(targets)
    sent = {topic.name: topic.partitions[0].replicas for topic in broker.requests[0].topics}
    assert sent == {"a": [1, 2], "b": None}


def test_a_refusal_to_unregister_names_the_broker() -> None:
    def answer(_request: UnregisterBrokerRequest) -> UnregisterBrokerResponse:
        return UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED)

    with pytest.raises(BrokerError, match="broker 7") as refusal:
        unregister_broker(as_cluster(OneBroker(answer)), 7, None)
    assert refusal.value.code == ErrorCode.BROKER_ID_NOT_REGISTERED

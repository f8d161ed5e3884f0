"""Brokers and replicas as the cluster describes them; elections of leaders, and reassignments of replicas (KIP-455).

Any broker answers: Apache Kafka's pass requests for the controller on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from penstock.core.ids import NO_LEADER, TopicPartition
from penstock.protocol.definitions.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.definitions.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from penstock.protocol.definitions.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    RequestCursor,
    TopicRequest,
)
from penstock.protocol.definitions.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from penstock.protocol.definitions.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from penstock.protocol.definitions.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from penstock.protocol.error_codes import BrokerError, ErrorCode, known_code
from penstock.wire.cluster import Cluster
from penstock.wire.connection import Connection
from penstock.wire.errors import Right, require_success


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


@dataclass(frozen=True, slots=True)
class BrokerNode:
    """`is_fenced` is True for a registered broker that is not alive."""

    broker_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    cluster_id: str
    controller_id: int
    brokers: tuple[BrokerNode, ...]


@dataclass(frozen=True, slots=True)
class PartitionReplicas:
    """The replica sets of a partition. `elr` and `last_known_elr` are None where the broker does not know them."""

    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    offline: tuple[int, ...] = ()

    @property
    def is_offline(self) -> bool:
        return self.leader_id == NO_LEADER

    @property
    def is_under_replicated(self) -> bool:
        return len(self.isr) < len(self.replicas)


@dataclass(frozen=True, slots=True)
class Reassignment:
    """A reassignment that has not completed: `replicas` includes those that are being added and removed."""

    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]

    @property
    def target(self) -> tuple[int, ...]:
        return tuple(each for each in self.replicas if each not in self.removing)


def describe_cluster(cluster: Cluster, timeout_s: float | None) -> ClusterDescription:
    def attempt(connection: Connection) -> ClusterDescription:
        version = connection.version_for(DescribeClusterRequest)
        request = DescribeClusterRequest(include_fenced_brokers=True)
        response: DescribeClusterResponse = connection.ask(request, version)
        require_success(response.error_code, "the cluster", response.error_message)
        brokers = (
            BrokerNode(each.broker_id, each.host, each.port, each.rack, each.is_fenced) for each in response.brokers
        )
        return ClusterDescription(
            response.cluster_id, response.controller_id, tuple(sorted(brokers, key=lambda broker: broker.broker_id))
        )

    return cluster.ask_any("the cluster", attempt, timeout_s)


def describe_replicas(
    cluster: Cluster, topics: Iterable[str], timeout_s: float | None
) -> dict[TopicPartition, PartitionReplicas]:
    """Of these topics, or of all if `topics` is empty; those that do not exist are left out."""
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name) for name in sorted(set(topics))])
    found: dict[TopicPartition, PartitionReplicas] = {}

    def attempt(connection: Connection) -> DescribeTopicPartitionsResponse:
        response: DescribeTopicPartitionsResponse = connection.ask(
            request, connection.version_for(DescribeTopicPartitionsRequest)
        )
        return response

    while True:
        page = cluster.ask_any("replicas", attempt, timeout_s)
        for topic in page.topics:
            name = topic.name or ""
            if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                require_success(topic.error_code, f"topic '{name}'", needs=(Right("Describe", "topic", name),))
            for partition in topic.partitions:
                found[TopicPartition(name, partition.partition_index)] = _replicas(partition)
        if page.next_cursor is None:
            return found
        cursor = RequestCursor(topic_name=page.next_cursor.topic_name, partition_index=page.next_cursor.partition_index)
        request.cursor = cursor


def _replicas(partition: DescribeTopicPartitionsResponsePartition) -> PartitionReplicas:
    elr, last_known = partition.eligible_leader_replicas, partition.last_known_elr
    return PartitionReplicas(
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        replicas=tuple(partition.replica_nodes),
        isr=tuple(partition.isr_nodes),
        elr=None if elr is None else tuple(elr),
        last_known_elr=None if last_known is None else tuple(last_known),
        offline=tuple(partition.offline_replicas),
    )


def elect_leaders(
    cluster: Cluster, kind: ElectionType, partitions: Iterable[TopicPartition] | None, timeout_s: float | None
) -> dict[TopicPartition, BrokerError | None]:
    """The outcome of each partition; ELECTION_NOT_NEEDED says that the right replica leads already. None asks for an
    election in all partitions, and the answer then has those in which one was needed."""
    request = ElectLeadersRequest(
        election_type=kind,
        topic_partitions=None
        if partitions is None
        else [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in _by_topic(partitions).items()],
        timeout_ms=cluster.settings.times_ms["request.timeout.ms"],
    )

    def attempt(connection: Connection) -> dict[TopicPartition, BrokerError | None]:
        version = connection.version_for(ElectLeadersRequest, at_least=1 if kind is ElectionType.UNCLEAN else 0)
        response: ElectLeadersResponse = connection.ask(request, version)
        require_success(response.error_code, "election of leaders")
        return {
            TopicPartition(topic.topic, each.partition_id): _outcome(each.error_code, each.error_message)
            for topic in response.replica_election_results
            for each in topic.partition_result
        }

    return cluster.ask_any("election of leaders", attempt, timeout_s)


def alter_reassignments(
    cluster: Cluster, targets: Mapping[TopicPartition, Sequence[int] | None], timeout_s: float | None
) -> dict[TopicPartition, BrokerError | None]:
    """Starts a reassignment of each partition to these replicas; None cancels the one in progress."""
    request = AlterPartitionReassignmentsRequest(
        timeout_ms=cluster.settings.times_ms["request.timeout.ms"],
        topics=[
            ReassignableTopic(
                name=topic,
                partitions=[
                    ReassignablePartition(
                        partition_index=number, replicas=None if (target := targets[each]) is None else list(target)
                    )
                    for number in numbers
                    for each in [TopicPartition(topic, number)]
                ],
            )
            for topic, numbers in _by_topic(targets).items()
        ],
    )

    def attempt(connection: Connection) -> dict[TopicPartition, BrokerError | None]:
        version = connection.version_for(AlterPartitionReassignmentsRequest)
        response: AlterPartitionReassignmentsResponse = connection.ask(request, version)
        require_success(response.error_code, "reassignment of partitions", response.error_message)
        return {
            TopicPartition(topic.name, each.partition_index): _outcome(each.error_code, each.error_message)
            for topic in response.responses
            for each in topic.partitions
        }

    return cluster.ask_any("reassignment of partitions", attempt, timeout_s)


def list_reassignments(cluster: Cluster, timeout_s: float | None) -> dict[TopicPartition, Reassignment]:
    """All reassignments in progress."""
    request = ListPartitionReassignmentsRequest(timeout_ms=cluster.settings.times_ms["request.timeout.ms"])

    def attempt(connection: Connection) -> dict[TopicPartition, Reassignment]:
        version = connection.version_for(ListPartitionReassignmentsRequest)
        response: ListPartitionReassignmentsResponse = connection.ask(request, version)
        require_success(response.error_code, "reassignments of partitions", response.error_message)
        return {
            TopicPartition(topic.name, each.partition_index): Reassignment(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in response.topics
            for each in topic.partitions
        }

    return cluster.ask_any("reassignments of partitions", attempt, timeout_s)


def unregister_broker(cluster: Cluster, broker_id: int, timeout_s: float | None) -> None:
    """Forgets a broker that does not come back."""

    def attempt(connection: Connection) -> None:
        version = connection.version_for(UnregisterBrokerRequest)
        response: UnregisterBrokerResponse = connection.ask(UnregisterBrokerRequest(broker_id=broker_id), version)
        require_success(response.error_code, f"broker {broker_id}", response.error_message)

    cluster.ask_any(f"broker {broker_id}", attempt, timeout_s)


def _outcome(code: int, message: str | None) -> BrokerError | None:
    return None if not code else BrokerError(known_code(code), message or known_code(code).name)


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for each in partitions:
        topics.setdefault(each.topic, []).append(each.partition)
    return topics

"""What administrators' tools ask a cluster: a node without peers answers as an Apache Kafka of one node does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.node import Node
from penstock.core.ids import NO_LEADER, BrokerId, TopicName
from penstock.metadata.topics import NewTopic
from penstock.protocol.definitions.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from penstock.protocol.definitions.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from penstock.protocol.definitions.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from penstock.protocol.definitions.elect_leaders import ElectLeadersRequest, TopicPartitions
from penstock.protocol.definitions.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from penstock.protocol.definitions.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from penstock.protocol.error_codes import ErrorCode
from tests.unit.broker.handlers.requests import ask, versions_of
from tests.unit.broker.nodes import make_topics, node_in

PREFERRED, UNCLEAN = 0, 1


def run(directory: Path, scenario: Callable[[Node], None]) -> None:
    """With a topic `orders` of two partitions."""

    async def main() -> None:
        with node_in(directory) as node:
            make_topics(node, NewTopic("orders", 2))
            scenario(node)

    asyncio.run(main())


def lose_leader(node: Node, index: int) -> None:
    """As the image says it when the only replica of a partition is on a broker that is down."""
    topic = node.image.topics[TopicName("orders")]
    partitions = list(topic.partitions)
    elsewhere = (BrokerId(2),)
    partitions[index] = replace(partitions[index], leader=NO_LEADER, replicas=elsewhere, isr=(), elr=elsewhere)
    changed = replace(topic, partitions=tuple(partitions))
    node.image.topics[topic.name] = node.image.topics_by_id[topic.topic_id] = changed


def test_no_replica_is_on_its_way_to_another_broker(tmp_path: Path) -> None:
    def scenario(node: Node) -> None:
        for topics in (None, [ListPartitionReassignmentsTopics(name="orders", partition_indexes=[0])]):
            answer = ask(node, ListPartitionReassignmentsRequest(topics=topics))
            assert (answer.error_code, answer.error_message, answer.topics) == (0, None, [])

    run(tmp_path, scenario)


def reassign(node: Node, topic: str, index: int, replicas: list[int] | None, **options: Any) -> ErrorCode:
    wanted = ReassignableTopic(name=topic, partitions=[ReassignablePartition(partition_index=index, replicas=replicas)])
    answer = ask(node, AlterPartitionReassignmentsRequest(topics=[wanted], **options))
    [result] = answer.responses
    [partition] = result.partitions
    assert (answer.error_code, result.name, partition.partition_index) == (0, topic, index)
    assert (partition.error_message is None) == (partition.error_code == 0)
    return ErrorCode(partition.error_code)


def test_replicas_that_a_partition_has_already_are_accepted(tmp_path: Path) -> None:
    def scenario(node: Node) -> None:
        before = node.image.version
        assert reassign(node, "orders", 1, [1]) == ErrorCode.NONE
        assert reassign(node, "orders", 1, [1], allow_replication_factor_change=False) == ErrorCode.NONE
        assert node.image.version == before

    run(tmp_path, scenario)


@pytest.mark.parametrize("version", versions_of(AlterPartitionReassignmentsRequest))
def test_a_reassignment_is_answered_in_every_version(tmp_path: Path, version: int) -> None:
    def scenario(node: Node) -> None:
        wanted = ReassignableTopic(name="orders", partitions=[ReassignablePartition(partition_index=0, replicas=[1])])
        [result] = ask(node, AlterPartitionReassignmentsRequest(topics=[wanted]), version).responses
        assert [partition.error_code for partition in result.partitions] == [0]

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("topic", "index", "replicas", "expected"),
    [
        ("none", 0, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 2, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", -1, [1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ("orders", 0, None, ErrorCode.NO_REASSIGNMENT_IN_PROGRESS),
        ("orders", 0, [], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 0, [1, 1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 0, [1, 2], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ("orders", 0, [-1], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_a_reassignment_that_cannot_be_made_is_refused(
    tmp_path: Path, topic: str, index: int, replicas: list[int] | None, expected: ErrorCode
) -> None:
    run(tmp_path, lambda node: _check(reassign(node, topic, index, replicas), expected))


def _check(found: object, expected: object) -> None:
    assert found == expected


@pytest.mark.parametrize("version", versions_of(ElectLeadersRequest))
def test_an_election_is_not_needed_while_the_leader_is_the_preferred_one(tmp_path: Path, version: int) -> None:
    def scenario(node: Node) -> None:
        wanted = [TopicPartitions(topic="orders", partitions=[0, 7]), TopicPartitions(topic="none", partitions=[0])]
        answer = ask(node, ElectLeadersRequest(topic_partitions=wanted), version)
        assert answer.error_code == 0
        assert [
            (each.topic, partition.partition_id, partition.error_code)
            for each in answer.replica_election_results
            for partition in each.partition_result
        ] == [
            ("orders", 0, ErrorCode.ELECTION_NOT_NEEDED),
            ("orders", 7, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            ("none", 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ]

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("election", "expected"),
    [(PREFERRED, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE), (UNCLEAN, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)],
)
def test_an_election_for_all_partitions_names_only_those_without_their_leader(
    tmp_path: Path, election: int, expected: ErrorCode
) -> None:
    def scenario(node: Node) -> None:
        request = ElectLeadersRequest(election_type=election, topic_partitions=None)
        assert ask(node, request).replica_election_results == []
        lose_leader(node, 1)
        [result] = ask(node, request).replica_election_results
        assert [(each.partition_id, each.error_code) for each in result.partition_result] == [(1, expected)]

    run(tmp_path, scenario)


def test_an_unknown_kind_of_election_is_refused(tmp_path: Path) -> None:
    def scenario(node: Node) -> None:
        wanted = [TopicPartitions(topic="orders", partitions=[0])]
        answer = ask(node, ElectLeadersRequest(election_type=2, topic_partitions=wanted))
        [result] = answer.replica_election_results
        assert answer.error_code == result.partition_result[0].error_code == ErrorCode.INVALID_REQUEST
        assert ask(node, ElectLeadersRequest(election_type=2)).error_code == ErrorCode.INVALID_REQUEST

    run(tmp_path, scenario)


def quorum_of(topic: str, index: int = 0) -> DescribeQuorumRequest:
    return DescribeQuorumRequest(
        topics=[RequestTopicData(topic_name=topic, partitions=[RequestPartitionData(partition_index=index)])]
    )


@pytest.mark.parametrize("version", versions_of(DescribeQuorumRequest))
def test_one_node_is_the_only_voter_of_its_quorum(tmp_path: Path, version: int) -> None:
    def scenario(node: Node) -> None:
        answer = ask(node, quorum_of("__cluster_metadata"), version)
        [topic] = answer.topics
        [quorum] = topic.partitions
        assert (answer.error_code, quorum.error_code, quorum.leader_id, quorum.observers) == (0, 0, BrokerId(1), [])
        assert quorum.leader_epoch > 0
        [voter] = quorum.current_voters
        assert (voter.replica_id, voter.log_end_offset) == (1, quorum.high_watermark)
        assert quorum.high_watermark > 0
        assert (voter.last_caught_up_timestamp > 0) == (version >= 1)
        listeners = [(each.node_id, at.name, at.host, at.port) for each in answer.nodes for at in each.listeners]
        assert listeners == ([(1, "PLAINTEXT", "127.0.0.1", 9092)] if version >= 2 else [])

    run(tmp_path, scenario)


@pytest.mark.parametrize(("topic", "index"), [("orders", 0), ("__cluster_metadata", 1)])
def test_only_the_metadata_has_a_quorum(tmp_path: Path, topic: str, index: int) -> None:
    def scenario(node: Node) -> None:
        [result] = ask(node, quorum_of(topic, index)).topics
        assert (result.topic_name, result.partitions[0].partition_index) == (topic, index)
        assert result.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    run(tmp_path, scenario)


@pytest.mark.parametrize("version", versions_of(AlterReplicaLogDirsRequest))
def test_replicas_are_in_the_only_log_directory_already(tmp_path: Path, version: int) -> None:
    def scenario(node: Node) -> None:
        def directory(path: str, **topics: list[int]) -> AlterReplicaLogDir:
            wanted = [AlterReplicaLogDirTopic(name=name, partitions=indexes) for name, indexes in topics.items()]
            return AlterReplicaLogDir(path=path, topics=wanted)

        dirs = [directory(str(tmp_path), orders=[0, 9], none=[0]), directory("/elsewhere", orders=[1])]
        answer = ask(node, AlterReplicaLogDirsRequest(dirs=dirs), version)
        assert {
            (topic.topic_name, partition.partition_index): partition.error_code
            for topic in answer.results
            for partition in topic.partitions
        } == {
            ("orders", 0): ErrorCode.NONE,
            ("orders", 9): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("none", 0): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ("orders", 1): ErrorCode.LOG_DIR_NOT_FOUND,
        }

    run(tmp_path, scenario)


@pytest.mark.parametrize("version", versions_of(UpdateFeaturesRequest))
def test_features_stay_at_their_level(tmp_path: Path, version: int) -> None:
    def scenario(node: Node) -> None:
        def update(*features: tuple[str, int]) -> Any:
            updates = [FeatureUpdateKey(feature=name, max_version_level=level) for name, level in features]
            return ask(node, UpdateFeaturesRequest(feature_updates=updates), version)

        same = update(("group.version", 1), ("transaction.version", 2))
        assert same.error_code == 0
        named = ["group.version", "transaction.version"] if version < 2 else []
        assert [(each.feature, each.error_code) for each in same.results] == [(name, 0) for name in named]
        for refused in (("no.such.feature", 1), ("group.version", 2), ("group.version", 0), ("group.version", -1)):
            answer = update(("transaction.version", 2), refused)
            assert (answer.error_code, answer.results) == (ErrorCode.INVALID_UPDATE_VERSION, [])
            assert refused[0] in answer.error_message

    run(tmp_path, scenario)

"""What clients and tools are told of a cluster in which a broker is gone and partitions have lost replicas."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.core.errors import ProtocolError
from penstock.core.ids import NO_LEADER, BrokerId, LeaderEpoch, TopicName
from penstock.metadata.changes import ControllerElected, PartitionChanged
from penstock.protocol.definitions.describe_cluster import DescribeClusterRequest
from penstock.protocol.definitions.describe_quorum import DescribeQuorumRequest, RequestPartitionData, RequestTopicData
from penstock.protocol.definitions.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from penstock.protocol.definitions.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.error_codes import ErrorCode
from tests.unit.broker.clusters import Cluster, cluster_in

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)


def run(directory: Path, scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    """Broker 3 is gone. Partition 0 is led by broker 1; partition 1 had broker 3 as its only in-sync replica."""

    async def main() -> None:
        async with cluster_in(directory) as cluster:
            cluster.make_topic("topic", ONE, THREE)
            cluster.commit(ControllerElected(TWO, 4))
            cluster.change_in_sync("topic", 1, (THREE,))
            cluster.cut_off(THREE, is_gone=True)
            cluster.change_in_sync("topic", 0, (ONE, TWO))
            topic = cluster.image.topics[TopicName("topic")]
            before = topic.partitions[1]
            lost = replace(
                before,
                leader=NO_LEADER,
                leader_epoch=LeaderEpoch(before.leader_epoch + 1),
                isr=(),
                elr=(THREE,),
                last_known_leader=THREE,
                partition_epoch=before.partition_epoch + 1,
            )
            cluster.commit(PartitionChanged(topic.topic_id, lost))
            await scenario(cluster)

    asyncio.run(main())


def test_metadata_names_the_live_brokers_the_leaders_and_the_replicas_that_are_offline(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        answer = await cluster.ask(ONE, MetadataRequest(topics=[MetadataRequestTopic(name="topic")]))
        assert [broker.node_id for broker in answer.brokers] == [ONE, TWO]
        assert answer.controller_id == TWO
        led, lost = answer.topics[0].partitions
        assert (led.error_code, led.leader_id, led.isr_nodes) == (ErrorCode.NONE, ONE, [ONE, TWO])
        assert led.offline_replicas == lost.offline_replicas == [THREE]
        assert (lost.error_code, lost.leader_id) == (ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER)
        assert lost.leader_epoch == 1

    run(tmp_path, scenario)


def test_a_broker_whose_session_may_have_ended_sends_clients_elsewhere(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.stores[ONE].lease_deadline_ms = 0
        with pytest.raises(ProtocolError, match="clients ask another one"):
            await cluster.ask(ONE, MetadataRequest())
        assert (await cluster.ask(TWO, MetadataRequest())).controller_id == TWO
        cluster.stores[ONE].lease_deadline_ms = 1 << 62
        assert (await cluster.ask(ONE, MetadataRequest())).controller_id == TWO

    run(tmp_path, scenario)


def test_eligible_leader_replicas_and_the_last_leader_are_shown(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        answer = await cluster.ask(TWO, DescribeTopicPartitionsRequest(topics=[TopicRequest(name="topic")]))
        led, lost = answer.topics[0].partitions
        assert (led.eligible_leader_replicas, led.last_known_elr) == ([], [])
        assert (lost.error_code, lost.isr_nodes) == (ErrorCode.LEADER_NOT_AVAILABLE, [])
        assert (lost.eligible_leader_replicas, lost.last_known_elr) == ([THREE], [THREE])

    run(tmp_path, scenario)


def test_fenced_brokers_are_described_to_clients_that_ask_for_them(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        live = [(ONE, False), (TWO, False)]
        for wanted, shown in ((True, [*live, (THREE, True)]), (False, live)):
            answer = await cluster.ask(ONE, DescribeClusterRequest(include_fenced_brokers=wanted))
            assert [(broker.broker_id, broker.is_fenced) for broker in answer.brokers] == shown
            assert answer.controller_id == TWO

    run(tmp_path, scenario)


def test_the_controller_is_the_voter_and_the_other_live_brokers_observe(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        topic = RequestTopicData(topic_name="__cluster_metadata", partitions=[RequestPartitionData(partition_index=0)])
        answer = await cluster.ask(ONE, DescribeQuorumRequest(topics=[topic]))
        [quorum] = answer.topics[0].partitions
        assert (quorum.leader_id, quorum.leader_epoch) == (TWO, 4)
        assert [voter.replica_id for voter in quorum.current_voters] == [TWO]
        assert [observer.replica_id for observer in quorum.observers] == [ONE]
        assert [node.node_id for node in answer.nodes] == [TWO]

    run(tmp_path, scenario)

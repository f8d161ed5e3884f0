"""DeleteRecords: which topics it is for, and the followers that it waits for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from penstock.broker.handlers import delete_records
from penstock.broker.request_context import RequestContext
from penstock.core.ids import BrokerId
from penstock.metadata.topics import GROUP_OFFSETS_TOPIC, NewTopic
from penstock.protocol.definitions.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.record_encoding import NewRecord, encode_batch
from tests.unit.broker.clusters import Cluster, cluster_in
from tests.unit.broker.nodes import FakeConnection, make_topics, node_in


def test_records_that_a_policy_promises_to_keep_are_not_deleted(tmp_path: Path) -> None:
    policies = {"plain": "delete", "table": "compact", "both": "compact,delete", GROUP_OFFSETS_TOPIC: "delete"}

    async def main() -> None:
        with node_in(tmp_path, {"offsets.topic.replication.factor": "1"}) as node:
            make_topics(
                node,
                *(NewTopic(name, 1, 1, configs=[("cleanup.policy", policy)]) for name, policy in policies.items()),
            )
            everything = [DeleteRecordsPartition(partition_index=0, offset=-1)]
            topics = [DeleteRecordsTopic(name=name, partitions=everything) for name in policies]
            context = RequestContext(node, 2, "test", FakeConnection())
            response = delete_records.handle(DeleteRecordsRequest(topics=topics), context)
            assert isinstance(response, DeleteRecordsResponse)
            assert {each.name: each.partitions[0].error_code for each in response.topics} == {
                "plain": ErrorCode.NONE,
                "table": ErrorCode.POLICY_VIOLATION,
                "both": ErrorCode.NONE,
                GROUP_OFFSETS_TOPIC: ErrorCode.INVALID_TOPIC_EXCEPTION,
            }

    asyncio.run(main())


ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)


def in_cluster(directory: Path, scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    """Broker 1 leads the one partition, which holds a record on every broker."""

    async def main() -> None:
        async with cluster_in(directory) as cluster:
            cluster.make_topic("topic", ONE)
            partition = cluster.partition(ONE, "topic")
            batch, header = encode_batch([NewRecord(b"key", b"value", cluster.nodes[ONE].now_ms())])
            partition.stage_own(batch, header, cluster.nodes[ONE].now_ms())
            partition.write_staged()
            await cluster.until(lambda: partition.high_watermark == 1)
            await scenario(cluster)

    asyncio.run(main())


def everything(timeout_ms: int) -> DeleteRecordsRequest:
    partitions = [DeleteRecordsPartition(partition_index=0, offset=-1)]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="topic", partitions=partitions)], timeout_ms=timeout_ms)


def outcome(answer: Any) -> tuple[int, ErrorCode]:
    [result] = answer.topics[0].partitions
    return result.low_watermark, ErrorCode(result.error_code)


def test_the_answer_waits_until_the_live_followers_have_forgotten_the_records(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        answer, _ = cluster.begin(ONE, everything(60_000))
        assert not answer.done
        await cluster.until(lambda: answer.done)
        assert outcome(answer.response) == (1, ErrorCode.NONE)
        assert {cluster.partition(each, "topic").log.log_start_offset for each in (ONE, TWO, THREE)} == {1}

    in_cluster(tmp_path, scenario)


def test_a_follower_that_is_not_live_is_not_waited_for(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.cut_off(THREE)
        answer, _ = cluster.begin(ONE, everything(60_000))
        await cluster.until(lambda: cluster.partition(TWO, "topic").log.log_start_offset == 1)
        assert not answer.done
        cluster.cut_off(THREE, is_gone=True)
        await cluster.until(lambda: answer.done)
        assert outcome(answer.response) == (1, ErrorCode.NONE)

    in_cluster(tmp_path, scenario)


def test_followers_that_take_too_long_are_a_timeout(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.cut_off(THREE)
        answer, _ = cluster.begin(ONE, everything(1))
        await cluster.until(lambda: answer.done)
        assert outcome(answer.response) == (-1, ErrorCode.REQUEST_TIMED_OUT)

    in_cluster(tmp_path, scenario)


def test_a_leader_that_is_replaced_meanwhile_cannot_say_what_followers_have_forgotten(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.cut_off(THREE)
        answer, _ = cluster.begin(ONE, everything(60_000))
        cluster.elect("topic", 0, TWO)
        await cluster.until(lambda: answer.done)
        assert outcome(answer.response) == (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)

    in_cluster(tmp_path, scenario)

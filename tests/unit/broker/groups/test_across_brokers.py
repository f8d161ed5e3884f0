"""Groups whose coordinator moves between brokers, and offsets in transactions that another broker coordinates."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.transactions import endings
from penstock.core.ids import BrokerId, ProducerIdentity, TopicName
from penstock.metadata.topics import GROUP_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from penstock.protocol.definitions.end_txn import EndTxnRequest
from penstock.protocol.definitions.find_coordinator import FindCoordinatorRequest
from penstock.protocol.definitions.heartbeat import HeartbeatRequest
from penstock.protocol.definitions.init_producer_id import InitProducerIdRequest
from penstock.protocol.definitions.list_groups import ListGroupsRequest
from penstock.protocol.definitions.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from penstock.protocol.definitions.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from penstock.protocol.definitions.write_txn_markers import WriteTxnMarkersRequest
from penstock.protocol.error_codes import ErrorCode
from tests.integration.broker.conversation import Topic
from tests.integration.broker.group_conversation import commit_request, fetch_offsets_request, join_request
from tests.unit.broker.clusters import Cluster, cluster_in

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
GROUP = "group"
OFFSETS = GROUP_OFFSETS_TOPIC
PASSING = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS)


@pytest.fixture(autouse=True)
def short_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "_LEADER_RETRY_S", 0.002)


def run(directory: Path, scenario: Callable[[Cluster], Awaitable[None]], **settings: str) -> None:
    """Broker 1 coordinates the group, and broker 3 the transaction."""

    async def main() -> None:
        named = {"group.initial.rebalance.delay.ms": "0"}
        named |= {name.replace("_", "."): value for name, value in settings.items()}
        async with cluster_in(directory, named) as cluster:
            cluster.make_topic("topic", TWO)
            for key_type in (0, 1):
                found = await cluster.ask(TWO, FindCoordinatorRequest(key=GROUP, key_type=key_type), 3)
                assert found.error_code == ErrorCode.NONE
            for topic, leader in ((OFFSETS, ONE), (TRANSACTION_STATE_TOPIC, THREE)):
                if cluster.image.topics[topic].partitions[0].leader != leader:
                    cluster.elect(topic, 0, leader)
            await scenario(cluster)

    asyncio.run(main())


def topic_in(cluster: Cluster) -> Topic:
    return Topic("topic", cluster.image.topics[TopicName("topic")].topic_id)


async def retried(cluster: Cluster, ask: Callable[[], Awaitable[tuple[ErrorCode, Any]]]) -> tuple[ErrorCode, Any]:
    """As a client asks again while a coordinator loads."""
    async with asyncio.timeout(60):
        while True:
            code, answer = await ask()
            if code not in PASSING:
                return code, answer
            await cluster.turn()


async def commit(cluster: Cluster, broker: BrokerId, offset: int) -> ErrorCode:
    async def ask() -> tuple[ErrorCode, Any]:
        answer = await cluster.ask(broker, commit_request(GROUP, topic_in(cluster), {0: offset}), 9)
        return ErrorCode(answer.topics[0].partitions[0].error_code), answer

    return (await retried(cluster, ask))[0]


async def fetched(cluster: Cluster, broker: BrokerId, *, require_stable: bool = False) -> tuple[ErrorCode, int]:
    request = fetch_offsets_request(GROUP, topic_in(cluster), version=9, require_stable=require_stable)

    async def ask() -> tuple[ErrorCode, Any]:
        answer = (await cluster.ask(broker, request, 9)).groups[0]
        return ErrorCode(answer.error_code), answer

    code, answer = await retried(cluster, ask)
    if code:
        return code, -1
    [partition] = answer.topics[0].partitions
    return ErrorCode(partition.error_code), partition.committed_offset


def test_offsets_that_were_acknowledged_are_known_to_the_next_coordinator(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        for offset in (5, 7):
            assert await commit(cluster, ONE, offset) == ErrorCode.NONE
        cluster.elect(OFFSETS, 0, TWO)
        assert await fetched(cluster, ONE) == (ErrorCode.NOT_COORDINATOR, -1)
        assert await commit(cluster, ONE, 6) == ErrorCode.NOT_COORDINATOR
        assert await fetched(cluster, TWO) == (ErrorCode.NONE, 7)
        assert await commit(cluster, TWO, 8) == ErrorCode.NONE
        cluster.elect(OFFSETS, 0, ONE)
        assert await fetched(cluster, ONE) == (ErrorCode.NONE, 8)
        for broker, groups in ((ONE, [GROUP]), (TWO, [])):
            listed = await cluster.ask(broker, ListGroupsRequest())
            assert [group.group_id for group in listed.groups] == groups

    run(tmp_path, scenario)


def test_a_commit_that_no_replica_has_is_not_acknowledged_when_another_broker_takes_over(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await commit(cluster, ONE, 5) == ErrorCode.NONE
        cluster.cut_off(ONE)
        answer, _ = cluster.begin(ONE, commit_request(GROUP, topic_in(cluster), {0: 9}), 9)
        cluster.elect(OFFSETS, 0, TWO, isr=(TWO, THREE))
        assert await fetched(cluster, TWO) == (ErrorCode.NONE, 5)
        assert not answer.done
        cluster.connect(ONE)
        assert answer.done
        assert answer.response.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
        # And it never counts, though the broker that had it leads again.
        await cluster.until(lambda: cluster.partition(ONE, OFFSETS).log.log_end_offset == 1)
        cluster.elect(OFFSETS, 0, ONE, isr=(ONE, TWO, THREE))
        assert await fetched(cluster, ONE) == (ErrorCode.NONE, 5)

    run(tmp_path, scenario)


def test_offsets_that_the_replicas_may_lack_are_not_told(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await commit(cluster, ONE, 5) == ErrorCode.NONE
        cluster.cut_off(THREE)
        cluster.begin(ONE, commit_request(GROUP, topic_in(cluster), {0: 9}), 9)
        cluster.replicate()
        cluster.elect(OFFSETS, 0, TWO)
        request = fetch_offsets_request(GROUP, topic_in(cluster), version=9)
        for _ in range(3):
            answer = await cluster.ask(TWO, request, 9)
            assert answer.groups[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            await cluster.turn()
        cluster.connect(THREE)
        assert await fetched(cluster, TWO) == (ErrorCode.NONE, 9)

    run(tmp_path, scenario)


def test_members_go_on_at_the_next_coordinator(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        first = await cluster.ask(ONE, join_request(GROUP), 9)
        joined = await cluster.ask(ONE, join_request(GROUP, first.member_id), 9)
        assert joined.error_code == ErrorCode.NONE
        assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"all")
        who = {"group_id": GROUP, "member_id": joined.member_id, "generation_id": joined.generation_id}
        sync = SyncGroupRequest(**who, protocol_type="consumer", protocol_name="range", assignments=[assignment])
        assert (await cluster.ask(ONE, sync)).assignment == b"all"
        cluster.elect(OFFSETS, 0, TWO)
        assert (await cluster.ask(ONE, HeartbeatRequest(**who))).error_code == ErrorCode.NOT_COORDINATOR

        async def beat() -> tuple[ErrorCode, Any]:
            answer = await cluster.ask(TWO, HeartbeatRequest(**who))
            return ErrorCode(answer.error_code), answer

        assert (await retried(cluster, beat))[0] == ErrorCode.NONE

    run(tmp_path, scenario)


def test_a_member_that_waits_is_sent_to_the_next_coordinator(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        first = await cluster.ask(ONE, join_request(GROUP), 9)
        waiting, _ = cluster.begin(ONE, join_request(GROUP, first.member_id), 9)
        assert not waiting.done
        cluster.elect(OFFSETS, 0, TWO)
        assert (waiting.done, waiting.response.error_code) == (True, ErrorCode.NOT_COORDINATOR)

    run(tmp_path, scenario, group_initial_rebalance_delay_ms="60000")


def test_a_coordinator_whose_session_may_have_ended_tells_nothing(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await commit(cluster, ONE, 5) == ErrorCode.NONE
        store = cluster.stores[ONE]
        store.lease_deadline_ms = 0
        assert await fetched(cluster, ONE) == (ErrorCode.NOT_COORDINATOR, -1)
        assert await commit(cluster, ONE, 6) == ErrorCode.NOT_COORDINATOR
        assert (await cluster.ask(ONE, ListGroupsRequest())).error_code == ErrorCode.NOT_COORDINATOR
        cluster.stores[THREE].lease_deadline_ms = 0
        refused = await cluster.ask(THREE, end_request(ProducerIdentity(1, 0)))
        assert refused.error_code == ErrorCode.NOT_COORDINATOR
        store.lease_deadline_ms = 1 << 62
        assert await fetched(cluster, ONE) == (ErrorCode.NONE, 5)

    run(tmp_path, scenario)


def test_a_commit_is_refused_before_it_counts_where_too_few_replicas_are_in_sync(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        assert await commit(cluster, ONE, 5) == ErrorCode.NONE
        shard = cluster.nodes[ONE].groups.shard(GROUP)
        cluster.change_in_sync(OFFSETS, 0, (ONE,))
        assert await commit(cluster, ONE, 6) == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert cluster.nodes[ONE].groups.shard(GROUP) is shard
        cluster.change_in_sync(OFFSETS, 0, (ONE, TWO))
        assert await fetched(cluster, ONE) == (ErrorCode.NONE, 5)

    run(tmp_path, scenario, min_insync_replicas="2")


# Offsets in transactions


async def begin(cluster: Cluster) -> ProducerIdentity:
    async def ask() -> tuple[ErrorCode, Any]:
        request = InitProducerIdRequest(transactional_id="id", transaction_timeout_ms=60_000)
        answer = await cluster.ask(THREE, request)
        return ErrorCode(answer.error_code), answer

    code, answer = await retried(cluster, ask)
    assert code == ErrorCode.NONE
    return ProducerIdentity(answer.producer_id, answer.producer_epoch)


async def commit_in_transaction(
    cluster: Cluster, broker: BrokerId, producer: ProducerIdentity, offset: int, version: int = 5
) -> ErrorCode:
    partitions = [TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)]
    request = TxnOffsetCommitRequest(
        transactional_id="id",
        group_id=GROUP,
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        topics=[TxnOffsetCommitRequestTopic(name="topic", partitions=partitions)],
    )

    async def ask() -> tuple[ErrorCode, Any]:
        answer = await cluster.ask(broker, request, version)
        return ErrorCode(answer.topics[0].partitions[0].error_code), answer

    return (await retried(cluster, ask))[0]


def end_request(producer: ProducerIdentity) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id="id", producer_id=producer.producer_id, producer_epoch=producer.epoch, committed=True
    )


def test_offsets_count_with_the_marker_that_the_transaction_s_coordinator_sends(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        producer = await begin(cluster)
        assert await commit_in_transaction(cluster, ONE, producer, 5, version=4) == ErrorCode.TRANSACTION_ABORTABLE
        assert await commit_in_transaction(cluster, ONE, producer, 5) == ErrorCode.NONE
        assert await fetched(cluster, ONE, require_stable=True) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
        assert (await cluster.ask(THREE, end_request(producer))).error_code == ErrorCode.NONE
        assert await fetched(cluster, ONE, require_stable=True) == (ErrorCode.NONE, 5)

    run(tmp_path, scenario)


def test_offsets_of_a_transaction_count_at_the_coordinator_that_takes_over_meanwhile(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        producer = await begin(cluster)
        assert await commit_in_transaction(cluster, ONE, producer, 5) == ErrorCode.NONE
        cluster.cut_off(ONE, is_gone=True)
        cluster.elect(TRANSACTION_STATE_TOPIC, 0, THREE, isr=(TWO, THREE))
        cluster.elect(OFFSETS, 0, TWO, isr=(TWO, THREE))

        async def end() -> tuple[ErrorCode, Any]:
            answer = await cluster.ask(THREE, end_request(producer))
            return ErrorCode(answer.error_code), answer

        assert (await retried(cluster, end))[0] == ErrorCode.NONE
        assert await fetched(cluster, TWO, require_stable=True) == (ErrorCode.NONE, 5)

    run(tmp_path, scenario)


def test_a_marker_that_arrives_while_the_group_s_partition_is_loaded_is_not_missed(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        producer = await begin(cluster)
        assert await commit_in_transaction(cluster, ONE, producer, 5) == ErrorCode.NONE
        hold = cluster.holds[TWO, WriteTxnMarkersRequest] = asyncio.Event()
        cluster.elect(OFFSETS, 0, TWO)
        assert await fetched(cluster, TWO) == (ErrorCode.NONE, -1)
        ended, _ = cluster.begin(THREE, end_request(producer))
        await cluster.until(lambda: cluster.nodes[THREE].transactions.find("id").state.is_prepared)
        # Broker 2 leads in another epoch. It has read everything, and waits for a replica to confirm the last record.
        cluster.cut_off(ONE)
        cluster.begin(TWO, commit_request("other", topic_in(cluster), {0: 1}), 9)
        cluster.elect(OFFSETS, 0, TWO)
        request = fetch_offsets_request(GROUP, topic_in(cluster), version=9, require_stable=True)
        assert (await cluster.ask(TWO, request, 9)).groups[0].error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        log = cluster.partition(TWO, OFFSETS).log
        before = log.log_end_offset
        hold.set()
        await cluster.until(lambda: log.log_end_offset > before)
        cluster.connect(ONE)
        await cluster.until(lambda: ended.done)
        assert ended.response.error_code == ErrorCode.NONE
        assert await fetched(cluster, TWO, require_stable=True) == (ErrorCode.NONE, 5)

    run(tmp_path, scenario)

"""Transactions whose coordinator and partitions are on several brokers, while leaders move and brokers are cut off."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.transactions import endings
from penstock.coordinator.transaction import TransactionState
from penstock.core.ids import BrokerId, ProducerIdentity, TopicPartition
from penstock.metadata.topics import TRANSACTION_STATE_TOPIC
from penstock.protocol.definitions.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from penstock.protocol.definitions.end_txn import EndTxnRequest
from penstock.protocol.definitions.find_coordinator import FindCoordinatorRequest
from penstock.protocol.definitions.init_producer_id import InitProducerIdRequest
from penstock.protocol.definitions.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.definitions.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.record_batch import TRANSACTIONAL_FLAG
from tests.clocks import ManualClock
from tests.record_batches import Record, encode_batch
from tests.unit.broker.clusters import Cluster, cluster_in

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
ID = "id"
OLD_PRODUCE, NEW_PRODUCE, OLD_END, NEW_END = 11, 12, 4, 5
LOG = TRANSACTION_STATE_TOPIC
Scenario = Callable[[Cluster], Awaitable[None]]


@pytest.fixture(autouse=True)
def short_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endings, "_LEADER_RETRY_S", 0.002)
    monkeypatch.setattr(endings, "_RETRY_S", 0.002)


def run(directory: Path, scenario: Scenario, clock: ManualClock | None = None, **settings: str) -> None:
    """Broker 1 coordinates, and broker 2 and 3 lead a partition each."""

    async def main() -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        async with cluster_in(directory, named, clock=clock) as cluster:
            cluster.make_topic("topic", TWO, THREE)
            found = await cluster.ask(THREE, FindCoordinatorRequest(key=ID, key_type=1), 3)
            assert found.error_code == ErrorCode.NONE
            if found.node_id != ONE:
                cluster.elect(LOG, 0, ONE)
            await scenario(cluster)

    asyncio.run(main())


async def begin(cluster: Cluster, coordinator: BrokerId = ONE) -> ProducerIdentity:
    answer = await retried(
        cluster, coordinator, lambda: InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000)
    )
    return ProducerIdentity(answer.producer_id, answer.producer_epoch)


async def retried(cluster: Cluster, broker: BrokerId, request: Callable[[], Any], version: int | None = None) -> Any:
    """As a client asks again while a coordinator loads or the last transaction ends."""
    async with asyncio.timeout(60):
        while True:
            answer = await cluster.ask(broker, request(), version)
            if answer.error_code not in (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.CONCURRENT_TRANSACTIONS):
                assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
                return answer
            await cluster.turn()


def produce_request(producer: ProducerIdentity, index: int, sequence: int = 0) -> ProduceRequest:
    # Of this time: markers are, and a segment holds no more than a week.
    now_ms = time.time_ns() // 1_000_000
    batch = encode_batch(
        [Record(b"value", timestamp=now_ms)], producer=(*producer, sequence), attributes=TRANSACTIONAL_FLAG
    )
    data = PartitionProduceData(index=index, records=memoryview(batch))
    topic = TopicProduceData(name="topic", partition_data=[data])
    return ProduceRequest(transactional_id=ID, acks=-1, timeout_ms=30_000, topic_data=[topic])


def leader_of(cluster: Cluster, index: int) -> BrokerId:
    return cluster.image.topics[TopicPartition("topic", 0).topic].partitions[index].leader  # type: ignore[index]


async def produce(
    cluster: Cluster, producer: ProducerIdentity, index: int, sequence: int = 0, version: int = NEW_PRODUCE
) -> ErrorCode:
    answer = await cluster.ask(leader_of(cluster, index), produce_request(producer, index, sequence), version)
    return code_of(answer)


def code_of(answer: Any) -> ErrorCode:
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def end_request(producer: ProducerIdentity, commits: bool = True) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=ID, producer_id=producer.producer_id, producer_epoch=producer.epoch, committed=commits
    )


async def add(cluster: Cluster, producer: ProducerIdentity, *indexes: int) -> None:
    topic = AddPartitionsToTxnTopic(name="topic", partitions=list(indexes))
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=ID,
        v3_and_below_producer_id=producer.producer_id,
        v3_and_below_producer_epoch=producer.epoch,
        v3_and_below_topics=[topic],
    )
    answer = await cluster.ask(ONE, request, 3)
    assert {each.partition_error_code for each in answer.results_by_topic_v3_and_below[0].results_by_partition} == {0}


def outcomes(cluster: Cluster, broker: BrokerId, index: int) -> list[bool]:
    """Of every transaction that ended in the partition, as this broker's log tells: True for a commit."""
    found = []
    log = cluster.partition(broker, "topic", index).log
    content = log.read(0, 1 << 20, log.log_end_offset).read()
    for header, batch in _batches(content):
        if header.is_control:
            # The key of a control record: its version and type; 1 is a commit.
            found.append(batch[61 + 8] == 1)
    return found


def _batches(content: Any) -> Any:
    from penstock.broker.coordinator_log import _whole_batches

    return _whole_batches(memoryview(bytes(content)))


def is_ended(cluster: Cluster, index: int) -> bool:
    partition = cluster.partition(leader_of(cluster, index), "topic", index)
    return partition.last_stable_offset == partition.log.log_end_offset > 1


def state(cluster: Cluster, coordinator: BrokerId) -> TransactionState:
    return cluster.nodes[coordinator].transactions.find(ID).state


def is_complete(cluster: Cluster, coordinator: BrokerId) -> bool:
    loaded = cluster.nodes[coordinator].transactions._loads.loaded.get(0)
    transaction = None if loaded is None else loaded.find(ID)
    return transaction is not None and transaction.state in (
        TransactionState.COMPLETE_COMMIT,
        TransactionState.COMPLETE_ABORT,
    )


# Partitions of other brokers


def test_partitions_join_at_their_coordinator_and_get_their_markers_from_it(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        producer = await begin(cluster)
        assert [await produce(cluster, producer, index) for index in (0, 1)] == [ErrorCode.NONE] * 2
        # The partition is known to be in the transaction now, so that its leader does not ask again.
        asked = len(cluster.requests)
        assert await produce(cluster, producer, 0, sequence=1) == ErrorCode.NONE
        assert len(cluster.requests) == asked == 2
        assert not is_ended(cluster, 0)
        answer = await cluster.ask(ONE, end_request(producer), NEW_END)
        assert (answer.error_code, answer.producer_epoch) == (ErrorCode.NONE, producer.epoch + 1)
        assert is_ended(cluster, 0)
        assert is_ended(cluster, 1)
        assert state(cluster, ONE) is TransactionState.COMPLETE_COMMIT
        assert outcomes(cluster, TWO, 0) == outcomes(cluster, THREE, 1) == [True]

    run(tmp_path, scenario)


def test_an_older_client_s_partition_is_verified_at_its_coordinator(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        producer = await begin(cluster)
        assert await produce(cluster, producer, 0, version=OLD_PRODUCE) == ErrorCode.TRANSACTION_ABORTABLE
        await add(cluster, producer, 0)
        assert await produce(cluster, producer, 0, version=OLD_PRODUCE) == ErrorCode.NONE
        assert [request.transactions[0].verify_only for _, _, request in cluster.requests] == [True, True]
        fenced = ProducerIdentity(producer.producer_id, producer.epoch)
        assert await begin(cluster) > fenced
        assert await produce(cluster, fenced, 1, version=OLD_PRODUCE) == ErrorCode.INVALID_PRODUCER_EPOCH

    run(tmp_path, scenario)


def test_without_verification_nothing_is_asked(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        producer = await begin(cluster)
        assert await produce(cluster, producer, 0, version=OLD_PRODUCE) == ErrorCode.NONE
        assert cluster.requests == []

    run(tmp_path, scenario, transaction_partition_verification_enable="false")


@pytest.mark.parametrize("version", [OLD_PRODUCE, NEW_PRODUCE])
def test_a_coordinator_that_cannot_be_reached_is_an_error_that_clients_retry(tmp_path: Path, version: int) -> None:
    async def scenario(cluster: Cluster) -> None:
        producer = await begin(cluster)
        cluster.cut_off(ONE)
        cluster.elect("topic", 0, TWO, isr=(TWO, THREE))
        assert await produce(cluster, producer, 0, version=version) == ErrorCode.NOT_ENOUGH_REPLICAS
        assert cluster.partition(TWO, "topic").log.log_end_offset == 0

    run(tmp_path, scenario)


def test_batches_keep_their_order_while_the_coordinator_is_asked(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        producer = await begin(cluster)
        hold = cluster.holds[ONE, AddPartitionsToTxnRequest] = asyncio.Event()
        answers = [cluster.begin(TWO, produce_request(producer, 0, sequence), NEW_PRODUCE)[0] for sequence in range(3)]
        hold.set()
        await cluster.until(lambda: all(answer.done for answer in answers))
        results = [answer.response.responses[0].partition_responses[0] for answer in answers]
        assert [(result.error_code, result.base_offset) for result in results] == [(0, 0), (0, 1), (0, 2)]

    run(tmp_path, scenario)


def test_batches_behind_a_refused_one_are_refused_too(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        producer = await begin(cluster)
        hold = cluster.holds[ONE, AddPartitionsToTxnRequest] = asyncio.Event()
        answers = [cluster.begin(TWO, produce_request(producer, 0, sequence), NEW_PRODUCE)[0] for sequence in range(3)]
        cluster.cut_off(ONE)
        hold.set()
        await cluster.until(lambda: all(answer.done for answer in answers))
        assert [code_of(answer.response) for answer in answers] == [ErrorCode.NOT_ENOUGH_REPLICAS] * 3
        assert len(cluster.requests) == 1
        assert cluster.partition(TWO, "topic").log.log_end_offset == 0

    run(tmp_path, scenario)


def test_a_batch_that_was_verified_before_its_transaction_ended_is_refused(tmp_path: Path) -> None:
    """An older client's epoch is the same in the next transaction, and nothing else would tell the two apart."""

    async def scenario(cluster: Cluster) -> None:
        producer = await begin(cluster)
        await add(cluster, producer, 0)
        hold = cluster.holds[ONE, AddPartitionsToTxnRequest] = asyncio.Event()
        delayed, _ = cluster.begin(TWO, produce_request(producer, 0), OLD_PRODUCE)
        # The question is still on its way when the transaction ends. The coordinator of this test does not know of it.
        topics = [WritableTxnMarkerTopic(name="topic", partition_indexes=[0])]
        marker = WritableTxnMarker(
            producer_id=producer.producer_id, producer_epoch=producer.epoch, transaction_result=False, topics=topics
        )
        await cluster.ask(TWO, WriteTxnMarkersRequest(markers=[marker]))
        hold.set()
        await cluster.until(lambda: delayed.done)
        assert code_of(delayed.response) == ErrorCode.INVALID_TXN_STATE
        assert cluster.partition(TWO, "topic").last_stable_offset == 1

    run(tmp_path, scenario)


def test_a_late_marker_of_the_transaction_before_refuses_no_batch_of_the_next(tmp_path: Path) -> None:
    """It has the epoch that the producer has now. The coordinator lets partitions join only when it is written."""

    async def scenario(cluster: Cluster) -> None:
        producer = await begin(cluster)
        hold = cluster.holds[ONE, AddPartitionsToTxnRequest] = asyncio.Event()
        asked, _ = cluster.begin(TWO, produce_request(producer, 0), NEW_PRODUCE)
        topics = [WritableTxnMarkerTopic(name="topic", partition_indexes=[0])]
        marker = WritableTxnMarker(
            producer_id=producer.producer_id, producer_epoch=producer.epoch, transaction_result=True, topics=topics
        )
        await cluster.ask(TWO, WriteTxnMarkersRequest(markers=[marker]))
        hold.set()
        await cluster.until(lambda: asked.done)
        assert code_of(asked.response) == ErrorCode.NONE

    run(tmp_path, scenario)


def test_several_brokers_may_let_partitions_join_at_the_same_time(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        producer = await begin(cluster)
        answers = [
            cluster.begin(leader, produce_request(producer, index), NEW_PRODUCE)[0]
            for index, leader in enumerate((TWO, THREE))
        ]
        await cluster.until(lambda: all(answer.done for answer in answers))
        assert [code_of(answer.response) for answer in answers] == [ErrorCode.NONE] * 2

    run(tmp_path, scenario)


def test_an_addition_waits_for_a_change_that_is_being_written(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        producer = await begin(cluster)

        def join(index: int) -> AddPartitionsToTxnRequest:
            transaction = AddPartitionsToTxnTransaction(
                transactional_id=ID,
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                topics=[AddPartitionsToTxnTopic(name="topic", partitions=[index])],
            )
            return AddPartitionsToTxnRequest(transactions=[transaction])

        answers = [cluster.begin(ONE, join(index))[0] for index in (0, 1)]
        assert not any(answer.done for answer in answers)
        await cluster.until(lambda: all(answer.done for answer in answers))
        codes = [
            answer.response.results_by_transaction[0].topic_results[0].results_by_partition[0].partition_error_code
            for answer in answers
        ]
        assert codes == [ErrorCode.NONE] * 2

    run(tmp_path, scenario)


# Markers while leaders move


def test_markers_are_sent_again_until_the_new_leader_has_them(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        producer = await begin(cluster)
        assert [await produce(cluster, producer, index) for index in (0, 1)] == [ErrorCode.NONE] * 2
        cluster.cut_off(TWO, is_gone=True)
        cluster.elect(LOG, 0, ONE, isr=(ONE, THREE))
        cluster.elect("topic", 1, THREE, isr=(ONE, THREE))
        # The coordinator still sends to broker 2. The client is told all the same: the outcome is decided.
        answer = await retried(cluster, ONE, lambda: end_request(producer), NEW_END)
        assert answer.error_code == ErrorCode.NONE
        await cluster.until(lambda: is_ended(cluster, 1))
        assert state(cluster, ONE) is TransactionState.PREPARE_COMMIT
        attempts = len(cluster.requests)
        await cluster.until(lambda: len(cluster.requests) > attempts + 2)
        assert {receiver for _, receiver, _ in cluster.requests[attempts:]} == {TWO}
        cluster.elect("topic", 0, THREE, isr=(ONE, THREE))
        await cluster.until(lambda: is_complete(cluster, ONE))
        assert outcomes(cluster, THREE, 0) == outcomes(cluster, THREE, 1) == [True]
        cluster.connect(TWO)
        await cluster.until(lambda: outcomes(cluster, TWO, 0) == [True])

    run(tmp_path, scenario)


def test_a_leader_that_does_not_know_that_it_was_replaced_cannot_take_a_marker(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        producer = await begin(cluster)
        assert await produce(cluster, producer, 0) == ErrorCode.NONE
        # Broker 3 leads, and neither broker 1 nor broker 2 has heard of it.
        node = cluster.nodes[ONE]
        ended = cluster.begin(ONE, end_request(producer), NEW_END)[0]
        await cluster.until(lambda: node.transactions.find(ID).state.is_prepared)
        cluster.elect("topic", 0, THREE)
        await cluster.until(lambda: ended.done)
        await cluster.until(lambda: is_complete(cluster, ONE))
        assert is_ended(cluster, 0)
        await cluster.until(lambda: outcomes(cluster, TWO, 0) == outcomes(cluster, THREE, 0) == [True])

    run(tmp_path, scenario)


def test_an_end_that_too_few_replicas_can_hold_waits_and_costs_no_load(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        producer = await begin(cluster)
        assert await produce(cluster, producer, 0) == ErrorCode.NONE
        shard = cluster.nodes[ONE].transactions._loads.loaded[0]
        hold = cluster.holds[TWO, WriteTxnMarkersRequest] = asyncio.Event()
        answer, _ = cluster.begin(ONE, end_request(producer), NEW_END)
        await cluster.until(lambda: state(cluster, ONE).is_prepared)
        cluster.change_in_sync(LOG, 0, (ONE,))
        hold.set()
        await cluster.until(lambda: answer.done)
        assert answer.response.error_code == ErrorCode.NONE
        assert is_ended(cluster, 0)
        assert state(cluster, ONE) is TransactionState.PREPARE_COMMIT
        refused = await cluster.ask(ONE, InitProducerIdRequest(transactional_id="other", transaction_timeout_ms=1))
        assert refused.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        cluster.change_in_sync(LOG, 0, (ONE, TWO))
        await cluster.until(lambda: is_complete(cluster, ONE))
        assert cluster.nodes[ONE].transactions._loads.loaded[0] is shard
        assert outcomes(cluster, TWO, 0) == [True]

    run(tmp_path, scenario, transaction_state_log_min_isr="2")


# A coordinator that moves


def test_a_commit_that_was_decided_is_finished_by_the_next_coordinator(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        producer = await begin(cluster)
        assert [await produce(cluster, producer, index) for index in (0, 1)] == [ErrorCode.NONE] * 2
        hold = cluster.holds[TWO, WriteTxnMarkersRequest] = asyncio.Event()
        answer, _ = cluster.begin(ONE, end_request(producer), NEW_END)
        await cluster.until(lambda: is_ended(cluster, 1))
        assert state(cluster, ONE) is TransactionState.PREPARE_COMMIT
        cluster.cut_off(ONE, is_gone=True)
        for index, leader in enumerate((TWO, THREE)):
            cluster.elect("topic", index, leader, isr=(TWO, THREE))
        cluster.elect(LOG, 0, THREE, isr=(TWO, THREE))
        hold.set()
        await cluster.until(lambda: is_complete(cluster, THREE))
        assert state(cluster, THREE) is TransactionState.COMPLETE_COMMIT
        assert is_ended(cluster, 0)
        assert outcomes(cluster, TWO, 0) == [True]
        assert set(outcomes(cluster, THREE, 1)) == {True}
        # What the client asks again at the new coordinator is known there to be done.
        again = await retried(cluster, THREE, lambda: end_request(producer), NEW_END)
        assert (again.error_code, again.producer_epoch) == (ErrorCode.NONE, producer.epoch + 1)
        assert (answer.done, answer.response.error_code) == (True, ErrorCode.NONE)

    run(tmp_path, scenario)


def test_a_decision_that_its_replicas_do_not_hold_is_not_carried_out(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        producer = await begin(cluster)
        assert [await produce(cluster, producer, index) for index in (0, 1)] == [ErrorCode.NONE] * 2
        cluster.cut_off(ONE)
        answer, _ = cluster.begin(ONE, end_request(producer), NEW_END)
        cluster.commit()
        for index, leader in enumerate((TWO, THREE)):
            cluster.elect("topic", index, leader, isr=(TWO, THREE))
        cluster.elect(LOG, 0, TWO, isr=(TWO, THREE))
        # The next coordinator knows of no decision, and the client makes another one.
        aborted = await retried(cluster, TWO, lambda: end_request(producer, commits=False), NEW_END)
        assert aborted.error_code == ErrorCode.NONE
        await cluster.until(lambda: is_complete(cluster, TWO))
        cluster.connect(ONE)
        await cluster.until(lambda: answer.done)
        assert answer.response.error_code == ErrorCode.NOT_COORDINATOR
        await cluster.until(lambda: outcomes(cluster, ONE, 0) == outcomes(cluster, ONE, 1) == [False])
        assert outcomes(cluster, TWO, 0) == outcomes(cluster, THREE, 1) == [False]

    run(tmp_path, scenario)


def test_a_new_coordinator_waits_until_its_replicas_hold_what_it_has_read(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        producer = await begin(cluster)
        assert await produce(cluster, producer, 0) == ErrorCode.NONE
        # Only broker 2 gets the decision of broker 1, and neither knows that the other has it.
        cluster.begin(ONE, end_request(producer), NEW_END)
        cluster.cut_off(THREE)
        log = cluster.partition(ONE, LOG)
        cluster.replicate()
        assert log.high_watermark < log.log.log_end_offset
        cluster.elect(LOG, 0, TWO)
        refused = await cluster.ask(TWO, end_request(producer), NEW_END)
        assert refused.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert outcomes(cluster, TWO, 0) == []
        cluster.connect(THREE)
        await cluster.until(lambda: is_complete(cluster, TWO))
        assert outcomes(cluster, TWO, 0) == [True]

    run(tmp_path, scenario)


def test_the_coordinator_that_was_replaced_sends_its_clients_away_and_its_markers_are_refused(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        producer = await begin(cluster)
        assert await produce(cluster, producer, 1) == ErrorCode.NONE
        await cluster.ask(ONE, end_request(producer), NEW_END)
        cluster.elect(LOG, 0, TWO)
        for request in (end_request(producer), InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=1)):
            assert (await cluster.ask(ONE, request, 4)).error_code == ErrorCode.NOT_COORDINATOR
        producer = await begin(cluster, TWO)
        assert await produce(cluster, producer, 1) == ErrorCode.NONE
        await cluster.ask(TWO, end_request(producer), NEW_END)
        late = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch + 1,
            topics=[WritableTxnMarkerTopic(name="topic", partition_indexes=[1])],
            coordinator_epoch=cluster.image.topics[LOG].partitions[0].leader_epoch - 1,
        )
        answer = await cluster.ask(THREE, WriteTxnMarkersRequest(markers=[late]))
        [result] = answer.markers[0].topics[0].partitions
        assert result.error_code == ErrorCode.TRANSACTION_COORDINATOR_FENCED

    run(tmp_path, scenario)


def test_a_transaction_that_runs_out_of_time_is_aborted_by_the_next_coordinator(tmp_path: Path) -> None:
    """Which counts its time from when it took over."""
    clock = ManualClock(time.time_ns() // 1_000_000)

    async def scenario(cluster: Cluster) -> None:
        producer = await begin(cluster)
        assert await produce(cluster, producer, 0) == ErrorCode.NONE
        clock.advance(59_000)
        cluster.elect(LOG, 0, THREE)
        transactions = cluster.nodes[THREE].transactions
        await cluster.until(lambda: 0 in transactions._loads.loaded)
        # The loop's timer runs by another clock.
        clock.advance(59_000)
        transactions._due("0")
        await cluster.turn()
        assert state(cluster, THREE) is TransactionState.ONGOING
        clock.advance(1_001)
        transactions._due("0")
        await cluster.until(lambda: is_complete(cluster, THREE))
        assert outcomes(cluster, TWO, 0) == [False]

    run(tmp_path, scenario, clock)


def test_a_broker_that_has_not_heard_of_the_topic_sends_the_client_on(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster_in(tmp_path) as cluster:
            cluster.cut_off(ONE)
            cluster.make_topic("topic", TWO, THREE)
            found = await cluster.ask(TWO, FindCoordinatorRequest(key=ID, key_type=1), 3)
            assert found.error_code == ErrorCode.NONE
            refused = await cluster.ask(ONE, end_request(ProducerIdentity(1, 0)), NEW_END)
            assert refused.error_code == ErrorCode.NOT_COORDINATOR

    asyncio.run(scenario())


def test_the_topic_waits_for_as_many_brokers_as_it_wants_replicas(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with cluster_in(tmp_path, brokers=2) as cluster:
            for key_type in (0, 1):
                found = await cluster.ask(ONE, FindCoordinatorRequest(key=ID, key_type=key_type), 3)
                assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
                assert "replication factor" in found.error_message.lower()
            (tmp_path / "3").mkdir()
            third = cluster.start(tmp_path / "3", THREE, {}, None)
            for key_type in (0, 1):
                found = await cluster.ask(ONE, FindCoordinatorRequest(key=ID, key_type=key_type), 3)
                assert found.error_code == ErrorCode.NONE
            await third.tasks.close()
            third.close(clean=True)

    asyncio.run(scenario())


# Producer ids


def test_every_broker_hands_out_producer_ids_of_its_own_block(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        found = [
            (await cluster.ask(broker, InitProducerIdRequest())).producer_id
            for broker in (ONE, TWO, THREE)
            for _ in range(2)
        ]
        assert [number % 1000 for number in found] == [0, 1] * 3
        assert len(set(found)) == 6

    run(tmp_path, scenario)

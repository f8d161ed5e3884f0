"""The transaction coordinator on real logs: whatever step a crash or a full disk falls on, transactions converge."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.node import Node
from penstock.broker.transactions import coordinator as transaction_coordinator
from penstock.broker.transactions import endings
from penstock.broker.transactions import markers as transaction_markers
from penstock.broker.transactions.admission import Joining, admit
from penstock.coordinator.transaction import ProtocolLevel, TransactionState
from penstock.core import limits
from penstock.core.ids import ProducerIdentity, TopicPartition
from penstock.log import appender, filesystem
from penstock.metadata.topics import TRANSACTION_STATE_TOPIC, NewTopic, decide_deletion
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.record_batch import TRANSACTIONAL_FLAG
from tests.record_batches import Record, encode_batch
from tests.unit.broker.nodes import commit_changes, make_topics, node_in

LEVEL = ProtocolLevel.EPOCH_PER_TRANSACTION
PLACES = frozenset({TopicPartition("topic", 0), TopicPartition("topic", 1)})
SETTINGS = {"transaction.state.log.num.partitions": "2"}

Scenario = Callable[[Node], Awaitable[None]]


def run(directory: Path, scenario: Scenario, **settings: str) -> None:
    async def main() -> None:
        named = {name.replace("_", "."): value for name, value in settings.items()}
        with node_in(directory, {**SETTINGS, **named}) as node:
            if "topic" not in node.topics:
                make_topics(node, NewTopic("topic", 2, 1))
            node.resume_transactions()
            await scenario(node)

    asyncio.run(main())


async def outcome(ask: Callable[[Callable[[Any], None]], None]) -> Any:
    """What the coordinator tells its callback."""
    told: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    ask(told.set_result)
    return await asyncio.wait_for(told, 10)


async def begin(node: Node, timeout_ms: int = 60_000) -> ProducerIdentity:
    """A session, and an open transaction with a record in each partition."""
    producer = await outcome(lambda done: node.transactions.init_producer_id("id", timeout_ms, None, done))
    assert isinstance(producer, ProducerIdentity)
    await write(node, producer)
    return producer


async def write(node: Node, producer: ProducerIdentity) -> None:
    failures = await outcome(lambda done: admit(node, "id", producer, PLACES, Joining.WITH_THE_WRITE, done))
    assert failures == {}
    for place in PLACES:
        batch = encode_batch([Record(b"value", timestamp=node.now_ms())], producer=(*producer, 0),
                             attributes=TRANSACTIONAL_FLAG)  # fmt: skip
        partition = node.topics.partition(*place)
        partition.stage(memoryview(batch), 12, node.now_ms(), in_transaction=True)
        partition.write_staged()


async def commit(node: Node, producer: ProducerIdentity) -> Any:
    return await outcome(lambda done: node.transactions.end("id", producer, True, LEVEL, done))


def delete_transaction_log(node: Node) -> None:
    name = TRANSACTION_STATE_TOPIC
    commit_changes(node, decide_deletion(node.image, name=name, topic_id=None, delete_enabled=True))


def state(node: Node) -> TransactionState:
    return node.transactions.find("id").state


def is_decided(node: Node) -> bool:
    """Every marker is there."""
    return all(
        node.topics.partition(*place).last_stable_offset == node.topics.partition(*place).log.log_end_offset >= 2
        for place in PLACES
    )


async def until(condition: Callable[[], bool]) -> None:
    for _ in range(12_000):
        if condition():
            return
        await asyncio.sleep(0.005)
    pytest.fail("it never came to pass")


def test_an_end_is_told_when_the_markers_are_written(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        producer = await begin(node)
        assert not is_decided(node)
        assert await commit(node, producer) == (producer.producer_id, producer.epoch + 1)
        assert is_decided(node)
        assert state(node) is TransactionState.COMPLETE_COMMIT

    run(tmp_path, scenario)


def test_a_crash_before_the_markers_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def decide(node: Node) -> None:
        producer = await begin(node)
        node.transactions.end("id", producer, True, LEVEL, lambda told: pytest.fail("told before the markers"))
        node.appends.write()
        assert state(node) is TransactionState.PREPARE_COMMIT
        assert not is_decided(node)

    with monkeypatch.context() as crash:
        crash.setattr(endings, "deliver_markers", lambda *arguments: None)
        run(tmp_path, decide)
    run(tmp_path, resumed)


def test_a_crash_behind_the_markers_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def decide(node: Node) -> None:
        producer = await begin(node)
        node.transactions.end("id", producer, True, LEVEL, lambda told: pytest.fail("told before it was complete"))
        node.appends.write()
        assert is_decided(node)
        assert state(node) is TransactionState.PREPARE_COMMIT

    with monkeypatch.context() as crash:
        crash.setattr(transaction_coordinator.TransactionCoordinator, "_markers_written", lambda *arguments: None)
        run(tmp_path, decide)
    run(tmp_path, resumed)


async def resumed(node: Node) -> None:
    """Nobody asked for anything: what was decided is carried out all the same, and then all goes on."""
    await until(lambda: is_decided(node) and state(node) is TransactionState.COMPLETE_COMMIT)
    producer = node.transactions.find("id").producer
    await write(node, producer)
    assert isinstance(await commit(node, producer), ProducerIdentity)


def test_a_transaction_that_nobody_comes_back_for_is_aborted_in_time(tmp_path: Path) -> None:
    async def leave_open(node: Node) -> None:
        await begin(node, timeout_ms=100)

    async def wait(node: Node) -> None:
        await until(lambda: is_decided(node) and state(node) is TransactionState.COMPLETE_ABORT)

    run(tmp_path, leave_open)
    run(tmp_path, wait)


def failing_writes(node: Node, topic: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk is full wherever the topic is written, until the patch is undone."""
    directories = {partition.log.directory for partition in node.topics.replicas() if partition.topic_name == topic}

    def fail(file: Any, *arguments: Any) -> None:
        if str(Path(f"/proc/self/fd/{file.fd}").readlink().parent) in directories:
            raise OSError(errno.ENOSPC, "No space left on device")
        filesystem.write_fully(file, *arguments)

    monkeypatch.setattr(appender, "write_fully", fail)


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_coordinator, "_RETRY_MS", 20)
    monkeypatch.setattr(endings, "_RETRY_S", 0.02)


@pytest.mark.usefixtures("quick_retries")
def test_markers_that_cannot_be_written_are_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(node: Node) -> None:
        producer = await begin(node)
        with monkeypatch.context() as disk:
            failing_writes(node, "topic", disk)
            assert isinstance(await commit(node, producer), ProducerIdentity), "the outcome is decided"
            assert state(node) is TransactionState.PREPARE_COMMIT
            await asyncio.sleep(0.1)
            assert not is_decided(node)
        await until(lambda: is_decided(node) and state(node) is TransactionState.COMPLETE_COMMIT)

    run(tmp_path, scenario)


@pytest.mark.usefixtures("quick_retries")
def test_a_decision_that_cannot_be_written_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(node: Node) -> None:
        producer = await begin(node)
        with monkeypatch.context() as disk:
            failing_writes(node, TRANSACTION_STATE_TOPIC, disk)
            refusal = await commit(node, producer)
            assert isinstance(refusal, BrokerError)
            assert refusal.code == ErrorCode.NOT_COORDINATOR
        assert state(node) is TransactionState.ONGOING
        assert not is_decided(node)
        assert isinstance(await commit(node, producer), ProducerIdentity)
        assert is_decided(node)

    run(tmp_path, scenario)


@pytest.mark.usefixtures("quick_retries")
def test_the_last_step_may_fail_and_is_made_up_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(node: Node) -> None:
        producer = await begin(node)
        with monkeypatch.context() as disk:
            # The decision is written, then the disk is full.
            def then_full(*arguments: Any) -> None:
                transaction_markers.write_markers(*arguments)
                failing_writes(node, TRANSACTION_STATE_TOPIC, disk)

            disk.setattr(endings, "deliver_markers", then_full)
            assert isinstance(await commit(node, producer), ProducerIdentity)
            assert is_decided(node)
        await until(lambda: state(node) is TransactionState.COMPLETE_COMMIT)

    run(tmp_path, scenario)


def test_a_transaction_that_the_coordinator_has_forgotten_is_aborted(tmp_path: Path) -> None:
    """As after a power failure that took the newest records of the transaction log."""

    async def lose(node: Node) -> None:
        await begin(node)
        commit_changes(
            node, decide_deletion(node.image, name=TRANSACTION_STATE_TOPIC, topic_id=None, delete_enabled=True)
        )

    async def find_ended(node: Node) -> None:
        await until(lambda: is_decided(node))
        for place in PLACES:
            log = node.topics.partition(*place).log
            assert len(log.aborted_transactions(0, log.log_end_offset)) == 1

    run(tmp_path, lose)
    run(tmp_path, find_ended)


def test_a_commit_whose_markers_were_lost_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lose(node: Node) -> None:
        assert isinstance(await commit(node, await begin(node)), ProducerIdentity)
        assert not is_decided(node)

    async def find_ended(node: Node) -> None:
        await until(lambda: is_decided(node))
        for place in PLACES:
            log = node.topics.partition(*place).log
            assert log.aborted_transactions(0, log.log_end_offset) == []

    with monkeypatch.context() as power_failure:
        power_failure.setattr(endings, "deliver_markers", lambda node, end, places, done: done({}))
        run(tmp_path, lose)
    run(tmp_path, find_ended)


def test_unused_ids_are_forgotten(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        await outcome(lambda done: node.transactions.init_producer_id("id", 1000, None, done))
        assert [known.transactional_id for known in node.transactions] == ["id"]
        await until(lambda: not list(node.transactions))

    async def after(node: Node) -> None:
        assert not list(node.transactions)

    expiry = {
        "transactional_id_expiration_ms": "50",
        "transaction_remove_expired_transaction_cleanup_interval_ms": "20",
    }
    run(tmp_path, scenario, **expiry)
    run(tmp_path, after)


def test_a_topic_of_the_coordinator_that_is_deleted_takes_its_transactions_with_it(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        producer = await begin(node)
        commit_changes(
            node, decide_deletion(node.image, name=TRANSACTION_STATE_TOPIC, topic_id=None, delete_enabled=True)
        )
        with pytest.raises(BrokerError) as caught:
            node.transactions.find("id")
        assert caught.value.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        again = await outcome(lambda done: node.transactions.init_producer_id("id", 1000, None, done))
        assert again.producer_id > producer.producer_id

    run(tmp_path, scenario)


def test_a_large_transaction_log_is_loaded_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests are told to come back, and a decision whose markers are missing is carried out all the same."""

    async def decide(node: Node) -> None:
        producer = await begin(node)
        for number in range(8):
            await outcome(partial(node.transactions.init_producer_id, f"other-{number}", 60_000, None))
        node.transactions.end("id", producer, True, LEVEL, lambda told: pytest.fail("told before the markers"))
        node.appends.write()

    async def come_back(node: Node) -> None:
        with pytest.raises(BrokerError) as raised:
            node.transactions.find("id")
        assert raised.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        with pytest.raises(BrokerError) as raised:
            list(node.transactions)
        assert raised.value.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS

        def is_loaded() -> bool:
            try:
                return len(list(node.transactions)) == 9
            except BrokerError:
                return False

        await until(is_loaded)
        await resumed(node)

    with monkeypatch.context() as crash:
        crash.setattr(endings, "deliver_markers", lambda *arguments: None)
        run(tmp_path, decide)
    monkeypatch.setattr(limits, "COORDINATOR_LOAD_RECORDS_PER_TURN", 1)
    run(tmp_path, come_back)

"""A coordinator's topic: created on first use, written in batches, read back whole; failures are told exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.broker.coordinator_log import CoordinatorLog, CoordinatorTopic
from penstock.broker.node import Node
from penstock.coordinator.records.codec import CoordinatorRecord
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.record_encoding import BatchProducer
from tests.unit.broker.nodes import must_succeed, node_in

TOPIC = CoordinatorTopic("__consumer_offsets", 3, 3, {"cleanup.policy": "compact"})


def run(directory: Path, scenario: Callable[[Node], None]) -> None:
    async def main() -> None:
        with node_in(directory) as node:
            scenario(node)

    asyncio.run(main())


def opened(node: Node, topic: CoordinatorTopic = TOPIC) -> CoordinatorLog:
    log = CoordinatorLog(node, topic)
    log.ensure_topic(must_succeed)
    return log


def contents(log: CoordinatorLog, partition: int) -> list[tuple[int, bytes, bytes | None]]:
    return [(record.offset, record.key, record.value) for record in log.load(partition)]


def test_the_topic_is_made_once_with_no_more_replicas_than_there_are_brokers(tmp_path: Path) -> None:
    def scenario(node: Node) -> None:
        log = opened(node)
        log.ensure_topic(must_succeed)
        partitions = node.topics.topic("__consumer_offsets").partitions
        assert len(partitions) == 3
        assert node.topics.partition("__consumer_offsets", 0).config.compacts

    run(tmp_path, scenario)


def test_a_topic_that_cannot_be_made_leaves_no_coordinator(tmp_path: Path) -> None:
    def scenario(node: Node) -> None:
        log = CoordinatorLog(node, CoordinatorTopic("__consumer_offsets", 0, 1))
        told: list[BrokerError | None] = []
        log.ensure_topic(told.append)
        assert [error and error.code for error in told] == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        with pytest.raises(BrokerError, match="cannot be created") as raised:
            log.with_topic(log.check_topic)
        assert raised.value.code == ErrorCode.COORDINATOR_NOT_AVAILABLE

    run(tmp_path, scenario)


def test_what_is_appended_is_read_back_in_order_even_by_the_next_process(tmp_path: Path) -> None:
    expected = [(0, b"a", b"1"), (1, b"b", b"2"), (2, b"a", None)]

    def write(node: Node) -> None:
        log = opened(node)
        told: list[BrokerError | None] = []
        log.append(1, [CoordinatorRecord(b"a", b"1"), CoordinatorRecord(b"b", b"2")], on_committed=told.append)
        log.append(1, [CoordinatorRecord(b"a", None)], on_committed=told.append)
        assert told == []  # written together with everything else of this turn
        node.appends.write()
        assert told == [None, None]
        assert contents(log, 1) == expected
        assert contents(log, 0) == []

    def read(node: Node) -> None:
        assert contents(opened(node), 1) == expected

    run(tmp_path, write)
    run(tmp_path, read)


def test_an_append_outside_any_request_is_written_by_the_loop(tmp_path: Path) -> None:
    async def main() -> None:
        with node_in(tmp_path) as node:
            log = opened(node)
            told: asyncio.Future[BrokerError | None] = node.loop.create_future()
            log.append(0, [CoordinatorRecord(b"key", b"value")], on_committed=told.set_result)
            assert await asyncio.wait_for(told, 5) is None

    asyncio.run(main())


def test_a_topic_that_asks_for_fsync_commits_after_it(tmp_path: Path) -> None:
    async def main() -> None:
        with node_in(tmp_path) as node:
            log = opened(node, CoordinatorTopic("__consumer_offsets", 1, 1, {"flush.messages": "1"}))
            told: asyncio.Future[BrokerError | None] = node.loop.create_future()
            log.append(0, [CoordinatorRecord(b"key", b"value")], on_committed=told.set_result)
            node.appends.write()
            assert not told.done()
            assert await asyncio.wait_for(told, 5) is None
            partition = node.topics.partition("__consumer_offsets", 0)
            assert partition.log.recovery_point == partition.log.log_end_offset == 1

    asyncio.run(main())


def test_a_transactional_append_carries_its_producer(tmp_path: Path) -> None:
    def scenario(node: Node) -> None:
        log = opened(node)
        log.append(
            0,
            [CoordinatorRecord(b"key", b"value")],
            producer=BatchProducer(7, 3),
            transactional=True,
            on_committed=lambda error: None,
        )
        (record,) = log.load(0)
        assert (record.batch.producer_id, record.batch.producer_epoch) == (7, 3)
        assert record.batch.is_transactional

    run(tmp_path, scenario)


def test_an_append_that_cannot_be_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    def scenario(node: Node) -> None:
        told: list[BrokerError | None] = []
        unborn = CoordinatorLog(node, TOPIC)
        unborn.append(0, [CoordinatorRecord(b"key", b"value")], on_committed=told.append)
        codes = [error.code for error in told if error is not None]
        assert codes == [ErrorCode.COORDINATOR_NOT_AVAILABLE]
        assert contents(opened(node), 0) == []

    run(tmp_path, scenario)


def test_many_records_are_read_back_over_many_slices(tmp_path: Path) -> None:
    def scenario(node: Node) -> None:
        log = opened(node)
        for number in range(12):
            record = CoordinatorRecord(b"%d" % number, bytes(5_000_000 if number == 5 else 500_000))
            log.append(0, [record], on_committed=lambda error: None)
        assert [offset for offset, _, _ in contents(log, 0)] == list(range(12))

    run(tmp_path, scenario)

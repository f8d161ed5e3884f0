"""Durable appends as their requests see them: one answer each, with an error for exactly the partitions that failed."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.coordinator_log import CoordinatorLog, CoordinatorTopic
from penstock.broker.deferred import Deferred
from penstock.broker.node import Node
from penstock.broker.request_context import RequestContext
from penstock.broker.router import BY_API_KEY
from penstock.broker.transactions.markers import TransactionEnd, write_markers
from penstock.coordinator.records.codec import CoordinatorRecord
from penstock.core.ids import ProducerIdentity, TopicPartition
from penstock.log import filesystem
from penstock.metadata.topics import NewTopic
from penstock.protocol.definitions.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.integration.broker.conversation import batch_of
from tests.unit.broker.nodes import FakeConnection, make_topics, must_succeed, node_in

FLUSHED = NewTopic("flushed", 2, 1, configs=(("flush.messages", "1"),))
UNFLUSHED = NewTopic("unflushed", 2, 1)
ALL_IN_SYNC = -1


def run(directory: Path, scenario: Callable[[Node], Awaitable[None]]) -> None:
    async def main() -> None:
        with node_in(directory, on_fatal=lambda message: None) as node:
            make_topics(node, FLUSHED, UNFLUSHED)
            await scenario(node)

    asyncio.run(main())


def produce(node: Node, *topics: str, acks: int = ALL_IN_SYNC) -> Deferred:
    """One batch for each of the topics' two partitions, asked and written as a connection does."""
    data = [
        TopicProduceData(
            name=topic,
            partition_data=[PartitionProduceData(index=index, records=memoryview(batch_of(b"x"))) for index in (0, 1)],
        )
        for topic in topics
    ]
    request = ProduceRequest(acks=acks, timeout_ms=30_000, topic_data=data)
    answer = BY_API_KEY[0].handle(request, RequestContext(node, 12, "client", FakeConnection()))
    node.appends.write()
    assert isinstance(answer, Deferred)
    return answer


async def outcome(answer: Deferred) -> dict[str, list[int]]:
    """Error codes by topic."""
    for _ in range(12_000):
        if answer.done:
            return {
                topic.name: [partition.error_code for partition in topic.partition_responses]
                for topic in answer.response.responses
            }
        await asyncio.sleep(0.005)
    pytest.fail("the produce was never answered")


@pytest.fixture
def failing_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(filesystem, "_sync_data", fail)


def test_a_produce_is_answered_when_the_last_of_its_partitions_is_synced(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        answer = produce(node, "flushed", "unflushed")
        assert not answer.done
        assert await outcome(answer) == {"flushed": [0, 0], "unflushed": [0, 0]}
        assert all(node.topics.partition("flushed", index).log.recovery_point == 1 for index in (0, 1))

    run(tmp_path, scenario)


@pytest.mark.usefixtures("failing_fsync")
def test_a_failed_fsync_fails_the_partitions_that_wait_for_it_and_no_others(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        failed = {"flushed": [ErrorCode.KAFKA_STORAGE_ERROR] * 2, "unflushed": [ErrorCode.NONE] * 2}
        assert await outcome(produce(node, "flushed", "unflushed")) == failed
        # From now on the flusher refuses at once, while the request still counts its partitions.
        later = produce(node, "flushed", "unflushed")
        assert later.done
        assert await outcome(later) == failed

    run(tmp_path, scenario)


@pytest.mark.usefixtures("failing_fsync")
def test_a_failed_fsync_is_told_once_to_a_coordinator(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        log = CoordinatorLog(node, CoordinatorTopic("__consumer_offsets", 1, 1, {"flush.messages": "1"}))
        log.ensure_topic(must_succeed)
        for _ in range(2):
            told: asyncio.Future[BrokerError | None] = node.loop.create_future()
            log.append(0, [CoordinatorRecord(b"key", b"value")], on_committed=told.set_result)
            error = await asyncio.wait_for(told, 5)
            assert error is not None
            assert error.code == ErrorCode.NOT_COORDINATOR

    run(tmp_path, scenario)


@pytest.mark.usefixtures("failing_fsync")
def test_a_failed_fsync_leaves_a_transaction_without_the_markers_that_waited_for_it(tmp_path: Path) -> None:
    places = [TopicPartition(topic, index) for topic in ("flushed", "unflushed") for index in (0, 1)]

    async def scenario(node: Node) -> None:
        for epoch in range(2):
            end = TransactionEnd(ProducerIdentity(7, epoch), True, 0, epoch_must_be_new=False)
            told: asyncio.Future[Any] = node.loop.create_future()
            write_markers(node, end, places, told.set_result)
            failures = await asyncio.wait_for(told, 5)
            assert {place: error.code for place, error in failures.items()} == dict.fromkeys(
                places[:2], ErrorCode.KAFKA_STORAGE_ERROR
            )

    run(tmp_path, scenario)

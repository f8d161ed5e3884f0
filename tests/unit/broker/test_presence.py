"""Files that are moved or deleted under a running node: what happened is said, and nothing more is acknowledged."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from penstock.broker.node import Node
from penstock.broker.presence import PresenceWatch, loss_of
from penstock.core.ids import TopicName, TopicPartition
from penstock.metadata.changes import TopicDeleted
from penstock.metadata.topics import GROUP_OFFSETS_TOPIC, NewTopic
from penstock.protocol.definitions.metadata import MetadataRequest
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.integration.broker.conversation import batch_of
from tests.unit.broker.handlers.requests import ask
from tests.unit.broker.nodes import make_topics, node_in

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


def run(directory: Path, scenario: Callable[[Node], Awaitable[None]]) -> list[str]:
    """What the node said when it gave up."""
    fatal: list[str] = []

    async def main() -> None:
        with node_in(directory, on_fatal=fatal.append) as node:
            make_topics(node, NewTopic("orders", 2))
            assert append(node, 0) == append(node, 1) == ErrorCode.NONE
            await scenario(node)

    asyncio.run(main())
    return fatal


def append(node: Node, index: int) -> ErrorCode:
    try:
        partition = node.topics.partition("orders", index)
        staged = partition.stage(memoryview(batch_of(b"value")), 9, node.now_ms())
    except BrokerError as error:
        return error.code
    partition.write_staged()
    return staged.code


async def check(node: Node, watch: PresenceWatch | None = None) -> None:
    checked = (watch or PresenceWatch(node)).begin_check()
    assert checked is not None
    await checked
    await asyncio.sleep(0)  # the callback of the check comes after its result


def test_what_is_in_place_is_left_alone(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        watch = PresenceWatch(node)
        for _ in range(3):
            await check(node, watch)
            assert append(node, 0) == ErrorCode.NONE
        assert loss_of(node.log_directory) is None

    assert run(tmp_path / "data", scenario) == []


def test_a_partition_goes_offline_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(node: Node) -> None:
        shutil.rmtree(tmp_path / "data" / "orders-0")
        await check(node)
        assert append(node, 0) == STORAGE_ERROR
        assert append(node, 1) == ErrorCode.NONE
        answer = ask(node, MetadataRequest(topics=None), 12)
        (topic,) = [topic for topic in answer.topics if topic.name == "orders"]
        assert [list(partition.offline_replicas) for partition in topic.partitions] == [[node.broker_id], []]

    assert run(tmp_path / "data", scenario) == []
    assert [record.getMessage() for record in caplog.records] == [
        f"orders-0 is offline: {tmp_path}/data/orders-0: the file was moved or deleted while the broker was running; "
        "restore it and restart the broker, or delete the topic"
    ]


def test_a_replaced_partition_is_not_the_same(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        place = tmp_path / "data" / "orders-0"
        shutil.copytree(place, tmp_path / "copy")
        shutil.rmtree(place)
        shutil.move(tmp_path / "copy", place)
        await check(node)
        assert append(node, 0) == STORAGE_ERROR

    assert run(tmp_path / "data", scenario) == []


def test_an_idle_partition_is_checked_in_its_turn(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        watch = PresenceWatch(node)
        await check(node, watch)
        shutil.rmtree(tmp_path / "data" / "orders-0")
        for _ in range(3):
            await check(node, watch)
        assert append(node, 0) == STORAGE_ERROR

    assert run(tmp_path / "data", scenario) == []


def test_a_failed_write_looks_at_once(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        partition = node.topics.partition("orders", 0)
        partition.log._appender.must_roll = True
        partition.log._appender.reset()
        shutil.rmtree(tmp_path / "data" / "orders-0")
        assert append(node, 0) == STORAGE_ERROR
        assert partition.offline_reason is not None

    assert run(tmp_path / "data", scenario) == []


def test_the_topic_of_a_missing_partition_can_be_deleted(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        shutil.rmtree(tmp_path / "data" / "orders-0")
        await check(node)
        assert isinstance(make_topics(node, NewTopic("orders", 1))["orders"], BrokerError)
        outcomes: list[BrokerError | None] = []
        deletion = TopicDeleted(node.image.topics[TopicName("orders")].topic_id)
        node.propose(lambda image: [deletion], outcomes.append)
        assert outcomes == [None]
        make_topics(node, NewTopic("orders", 1))
        assert append(node, 0) == ErrorCode.NONE

    assert run(tmp_path / "data", scenario) == []


@pytest.mark.parametrize(
    ("lose", "said"),
    [
        (lambda data: data.rename(data.parent / "moved"), "the data directory was moved to {parent}/moved while"),
        (shutil.rmtree, "the data directory was deleted while the broker was running, and the records in it are lost"),
        (
            lambda data: (data / ".lock").unlink(),
            "the lock file .lock was moved or deleted while the broker was running",
        ),
    ],
)
def test_a_broker_without_its_directory_gives_up(tmp_path: Path, lose: Callable[[Path], object], said: str) -> None:
    data = tmp_path / "data"

    async def scenario(node: Node) -> None:
        lose(data)
        created = make_topics(node, NewTopic("late", 1))["late"]
        assert isinstance(created, BrokerError)
        assert created.code == STORAGE_ERROR
        await check(node)
        assert append(node, 0) == append(node, 1) == STORAGE_ERROR

    (message,) = run(data, scenario)
    assert message.startswith(f"{data}: {said.format(parent=tmp_path)}")
    assert not (data / "replication-offset-checkpoint").exists(), "nothing is written under the path any more"


def test_a_coordinator_lets_go_of_a_missing_partition(tmp_path: Path) -> None:
    async def scenario(node: Node) -> None:
        node.groups.log.ensure_topic(lambda error: None)
        shutil.rmtree(tmp_path / "data" / f"{GROUP_OFFSETS_TOPIC}-1")
        await check(node)
        assert node.offline == {TopicPartition(GROUP_OFFSETS_TOPIC, 1)}
        assert node.groups.log.led_partitions() == [0]

    assert run(tmp_path / "data", scenario) == []

"""A large `__consumer_offsets` is loaded in slices: its group waits, and every other client is served meanwhile."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest

from penstock import Admin
from penstock.coordinator.offsets import CommittedOffset, Offsets
from penstock.core.ids import TopicPartition
from penstock.metadata.topics import NewTopic
from penstock.protocol.definitions.list_groups import ListGroupsRequest
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.record_encoding import NewRecord, encode_batch
from penstock.testing import Broker
from tests.integration.broker.conversation import Topic, create_topic, produce_ok
from tests.integration.broker.group_conversation import fetch_offsets_request
from tests.unit.broker.nodes import make_topics, must_succeed, node_in
from tests.wire_client import WireClient

RECORDS = 300_000
BATCH_RECORDS = 1000
COMMITTED = 7
SETTINGS = {"offsets.topic.num.partitions": "1"}


def _write_offsets(directory: Path) -> None:
    """A partition of `__consumer_offsets` as large as a busy group leaves it before compaction."""

    async def main() -> None:
        with node_in(directory, SETTINGS) as node:
            make_topics(node, NewTopic("topic", 1, 1))
            node.groups.log.ensure_topic(must_succeed)
            commit = CommittedOffset(COMMITTED, -1, "", node.now_ms(), node.topics.topic("topic").topic_id)
            record = Offsets().commit("group", TopicPartition("topic", 0), commit)
            partition = node.topics.partition("__consumer_offsets", 0)
            content, header = encode_batch([NewRecord(record.key, record.value, node.now_ms())] * BATCH_RECORDS)
            for _ in range(RECORDS // BATCH_RECORDS):
                partition.stage_own(memoryview(bytearray(content)), header, node.now_ms())
                partition.write_staged()

    asyncio.run(main())


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    _write_offsets(tmp_path)
    with Broker(data_dir=tmp_path, config=SETTINGS) as broker:
        yield broker


def _offset_fetch(client: WireClient, topic: Topic) -> tuple[ErrorCode, int | None]:
    (group,) = client.ask(fetch_offsets_request("group", topic, version=9), 9).groups
    offset = group.topics[0].partitions[0].committed_offset if group.topics else None
    return ErrorCode(group.error_code), offset


def test_clients_are_served_while_a_large_shard_is_loaded(broker: Broker) -> None:
    with WireClient(broker.bootstrap_servers) as member, WireClient(broker.bootstrap_servers) as other:
        busy = create_topic(other, "busy")
        topic = Topic("topic", bytes(16))
        answered_meanwhile = 0
        assert _offset_fetch(member, topic)[0] is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert member.ask(ListGroupsRequest(), 5).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            produce_ok(other, busy, b"x")
            code, offset = _offset_fetch(member, topic)
            if code is ErrorCode.NONE:
                break
            assert code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            answered_meanwhile += 1
        assert (code, offset) == (ErrorCode.NONE, COMMITTED)
        # Loading takes a second or more; a produce waits for one slice of it at most.
        assert answered_meanwhile > 5
        assert [group.group_id for group in member.ask(ListGroupsRequest(), 5).groups] == ["group"]


@pytest.mark.slow
def test_a_consumer_waits_for_its_group_by_itself(broker: Broker) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(COMMITTED + 1):
        producer.produce("topic", str(number))
    assert producer.flush(30) == 0
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "group", "auto.offset.reset": "error"}
    )
    try:
        consumer.subscribe(["topic"])
        message = consumer.poll(60)
        assert message is not None
        assert message.error() is None
        assert message.offset() == COMMITTED
    finally:
        consumer.close()


@pytest.mark.parametrize(
    "ask", ["offsets", *(pytest.param(ask, marks=pytest.mark.slow) for ask in ("list", "describe"))]
)
def test_administration_waits_for_groups_that_are_being_loaded(broker: Broker, ask: str) -> None:
    admin = Admin({"bootstrap.servers": broker.bootstrap_servers})
    match ask:
        case "list":
            assert [group.name for group in admin.list_groups()] == ["group"]
        case "describe":
            assert admin.describe_group("group").state == "Empty"
        case "offsets":
            assert admin.group_offsets("group") == {TopicPartition("topic", 0): COMMITTED}

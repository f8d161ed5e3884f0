"""A shard that is being loaded: every request is told so, and what happens meanwhile is not lost."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.deferred import Deferred
from penstock.broker.node import Node
from penstock.broker.request_context import RequestContext
from penstock.broker.router import BY_API_KEY
from penstock.broker.transactions.markers import TransactionEnd, write_markers
from penstock.coordinator.offsets import CommittedOffset
from penstock.core import limits
from penstock.core.ids import ProducerIdentity, TopicPartition
from penstock.metadata.topics import NewTopic, decide_deletion
from penstock.protocol.definitions.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.protocol.definitions.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.definitions.delete_groups import DeleteGroupsRequest
from penstock.protocol.definitions.describe_groups import DescribeGroupsRequest
from penstock.protocol.definitions.heartbeat import HeartbeatRequest
from penstock.protocol.definitions.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.definitions.list_groups import ListGroupsRequest
from penstock.protocol.definitions.offset_delete import OffsetDeleteRequest
from penstock.protocol.definitions.sync_group import SyncGroupRequest
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.record_encoding import BatchProducer
from tests.integration.broker.conversation import Topic
from tests.integration.broker.group_conversation import commit_request, fetch_offsets_request, join_request
from tests.unit.broker.nodes import FakeConnection, commit_changes, make_topics, must_succeed, node_in

PLACE = TopicPartition("topic", 0)
PRODUCER = ProducerIdentity(7, 0)
LOADING = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
SETTINGS = {"offsets.topic.num.partitions": "1"}


def ask(node: Node, request: Any, version: int) -> Any:
    context = RequestContext(node, version, "client", FakeConnection())
    answer = BY_API_KEY[request.API_KEY].handle(request, context)
    if isinstance(answer, Deferred):
        node.appends.write()
        assert answer.done
        return answer.response
    return answer


def run_loading(
    directory: Path, monkeypatch: pytest.MonkeyPatch, scenario: Callable[[Node], Awaitable[None]], *, commits: int = 6
) -> None:
    """A node with commits of `group`, the last of them in an open transaction, which takes a turn for each record."""

    async def write() -> None:
        with node_in(directory, SETTINGS) as node:
            make_topics(node, NewTopic("topic", 1, 1))
            node.groups.log.ensure_topic(must_succeed)
            shard = node.groups.shard("group")
            topic_id = node.topics.topic("topic").topic_id
            for offset in range(commits):
                committed = CommittedOffset(offset, -1, "", node.now_ms(), topic_id)
                shard.append([shard.offsets.commit("group", PLACE, committed)])
            committed = CommittedOffset(100, -1, "", node.now_ms(), topic_id)
            record = shard.offsets.commit_in_transaction(PRODUCER.producer_id, "group", PLACE, committed)
            shard.append([record], transaction_of=BatchProducer(*PRODUCER))

    async def load() -> None:
        with node_in(directory, SETTINGS) as node:
            with pytest.raises(BrokerError) as raised:
                node.groups.shard("group")
            assert raised.value.code == LOADING
            await scenario(node)

    asyncio.run(write())
    monkeypatch.setattr(limits, "COORDINATOR_LOAD_RECORDS_PER_TURN", 1)
    asyncio.run(load())


async def loaded(node: Node) -> int:
    """Waits for the shard; the group's committed offset."""
    for _ in range(100):
        node.groups.log.ensure_topic(must_succeed)
        try:
            shard = node.groups.shard("group")
        except BrokerError as error:
            if error.code != LOADING:
                raise
            await asyncio.sleep(0)
        else:
            committed = shard.offsets.fetch("group", PLACE)
            return -1 if committed is None else committed.offset
    pytest.fail("the shard was never loaded")


def test_every_request_about_the_shard_is_told_to_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(node: Node) -> None:
        topic = Topic("topic", node.topics.topic("topic").topic_id)
        assert ask(node, join_request("group"), 9).error_code == LOADING
        assert ask(node, SyncGroupRequest(group_id="group", member_id="m"), 5).error_code == LOADING
        assert ask(node, HeartbeatRequest(group_id="group", member_id="m"), 4).error_code == LOADING
        leave = LeaveGroupRequest(group_id="group", members=[MemberIdentity(member_id="m")])
        assert ask(node, leave, 5).error_code == LOADING
        assert ask(node, ListGroupsRequest(), 5).error_code == LOADING
        assert ask(node, DescribeGroupsRequest(groups=["group"]), 6).groups[0].error_code == LOADING
        assert ask(node, DeleteGroupsRequest(groups_names=["group"]), 2).results[0].error_code == LOADING
        assert ask(node, OffsetDeleteRequest(group_id="group"), 0).error_code == LOADING
        committed = ask(node, commit_request("group", topic, {0: 1}), 9)
        assert committed.topics[0].partitions[0].error_code == LOADING
        assert ask(node, fetch_offsets_request("group", topic, version=9), 9).groups[0].error_code == LOADING
        heartbeat = ConsumerGroupHeartbeatRequest(
            group_id="group", member_id="m", rebalance_timeout_ms=1, subscribed_topic_names=["t"], topic_partitions=[]
        )
        assert ask(node, heartbeat, 1).error_code == LOADING
        described = ask(node, ConsumerGroupDescribeRequest(group_ids=["group"]), 1)
        assert described.groups[0].error_code == LOADING
        assert await loaded(node) == 5
        assert [group.group_id for group in ask(node, ListGroupsRequest(), 5).groups] == ["group"]

    run_loading(tmp_path, monkeypatch, scenario)


def test_a_marker_that_is_written_meanwhile_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(node: Node) -> None:
        end = TransactionEnd(PRODUCER, True, 0, epoch_must_be_new=False)
        told: list[Any] = []
        write_markers(node, end, [TopicPartition("__consumer_offsets", 0)], told.append)
        node.appends.write()
        assert told == [{}]
        assert await loaded(node) == 100

    run_loading(tmp_path, monkeypatch, scenario)


def test_a_topic_that_is_deleted_meanwhile_takes_its_offsets_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(node: Node) -> None:
        commit_changes(node, decide_deletion(node.image, name="topic", topic_id=None, delete_enabled=True))
        assert await loaded(node) == -1

    run_loading(tmp_path, monkeypatch, scenario)


def test_the_topic_of_groups_may_be_deleted_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario(node: Node) -> None:
        commit_changes(node, decide_deletion(node.image, name="__consumer_offsets", topic_id=None, delete_enabled=True))
        assert await loaded(node) == -1
        for _ in range(10):
            await asyncio.sleep(0)
        assert await loaded(node) == -1

    run_loading(tmp_path, monkeypatch, scenario)


def test_nothing_can_be_appended_to_a_partition_that_is_being_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(node: Node) -> None:
        with pytest.raises(AssertionError, match="still loading"):
            node.groups.log.append(0, [], on_committed=lambda error: None)
        await loaded(node)

    run_loading(tmp_path, monkeypatch, scenario)

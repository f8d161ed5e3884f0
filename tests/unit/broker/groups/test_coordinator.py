"""The coordinator on a disk that fails: nobody is told what the log does not hold, and groups are loaded anew."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.deferred import Deferred
from penstock.broker.node import Node
from penstock.broker.request_context import RequestContext
from penstock.broker.router import BY_API_KEY
from penstock.metadata.broker_config import BrokerConfig
from penstock.metadata.changes import BrokerConfigChanged, GroupConfigChanged
from penstock.metadata.topics import NewTopic, decide_deletion
from penstock.protocol.definitions.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from penstock.protocol.error_codes import ErrorCode
from tests.integration.broker.conversation import Topic
from tests.integration.broker.group_conversation import (
    commit_request,
    fetch_offsets_request,
    join_request,
)
from tests.unit.broker.nodes import FakeConnection, commit_changes, make_topics, node_in


class Groups:
    """A node's handlers, asked as a connection would."""

    def __init__(self, node: Node) -> None:
        self.node = node
        image = make_topics(node, NewTopic("topic", 1, 1))["topic"]
        self.topic = Topic("topic", image.topic_id)  # type: ignore[union-attr]

    def ask(self, request: Any, version: int = 9) -> Any:
        """The response, or the Deferred that will have it."""
        context = RequestContext(self.node, version, "client", FakeConnection())
        answer = BY_API_KEY[request.API_KEY].handle(request, context)
        self.node.appends.write()
        return answer.response if isinstance(answer, Deferred) and answer.done else answer

    def commit(self, offset: int) -> ErrorCode:
        answer = self.ask(commit_request("group", self.topic, {0: offset}))
        return ErrorCode(answer.topics[0].partitions[0].error_code)

    def committed(self) -> int:
        answer = self.ask(fetch_offsets_request("group", self.topic, version=9))
        return int(answer.groups[0].topics[0].partitions[0].committed_offset)

    def fail_writes(self, fails: bool) -> None:
        """As a full disk would: what was staged is undone, and nothing was written."""
        shard = self.node.groups.shard("group")
        log = self.node.topics.partition("__consumer_offsets", shard.index).log
        appender = log._appender

        def write() -> None:
            if not appender.has_staged:
                return
            appender.producers.rollback()
            appender.reset()
            raise OSError(errno.ENOSPC, "No space left on device")

        log.write_staged = write if fails else appender.write_staged


def run(directory: Path, scenario: Callable[[Groups], None]) -> None:
    async def main() -> None:
        with node_in(directory, {"offsets.topic.num.partitions": "1"}) as node:
            scenario(Groups(node))

    asyncio.run(main())


def test_a_commit_that_was_not_written_is_not_remembered(tmp_path: Path) -> None:
    def scenario(groups: Groups) -> None:
        assert groups.commit(1) == ErrorCode.NONE
        groups.fail_writes(True)
        assert groups.commit(2) == ErrorCode.NOT_COORDINATOR
        assert groups.committed() == 1
        groups.fail_writes(False)
        assert groups.commit(3) == ErrorCode.NONE
        assert groups.committed() == 3

    run(tmp_path, scenario)


def test_members_that_wait_are_sent_to_look_for_their_coordinator(tmp_path: Path) -> None:
    def scenario(groups: Groups) -> None:
        member_id = groups.ask(join_request("neighbours")).member_id
        waiting = groups.ask(join_request("neighbours", member_id))
        assert not waiting.done
        groups.fail_writes(True)
        assert groups.commit(2) == ErrorCode.NOT_COORDINATOR
        assert (waiting.done, waiting.response.error_code) == (True, ErrorCode.NOT_COORDINATOR)
        assert groups.ask(join_request("neighbours", member_id)).error_code == ErrorCode.UNKNOWN_MEMBER_ID

    run(tmp_path, scenario)


def test_a_topic_of_groups_that_is_deleted_takes_its_groups_along(tmp_path: Path) -> None:
    def scenario(groups: Groups) -> None:
        assert groups.commit(1) == ErrorCode.NONE
        deletion = decide_deletion(groups.node.image, name="__consumer_offsets", topic_id=None, delete_enabled=True)
        commit_changes(groups.node, deletion)
        assert groups.committed() == -1
        assert groups.commit(2) == ErrorCode.NONE
        assert groups.committed() == 2

    run(tmp_path, scenario)


@pytest.mark.parametrize("codec", range(5))
def test_the_topic_of_groups_may_be_compressed(tmp_path: Path, codec: int) -> None:
    async def main(expected: int) -> None:
        with node_in(tmp_path, {"offsets.topic.compression.codec": str(codec)}) as node:
            if expected < 0:
                assert Groups(node).commit(7) == ErrorCode.NONE
                return
            (record,) = node.groups.log.load(node.groups.log.partition_for("group"))
            assert record.batch.compression == codec
            offsets = node.groups.offsets.fetch("group", None, -1)
            assert [offsets.at(place, require_stable=True) is not None for place in offsets.partitions()] == [True]

    asyncio.run(main(-1))
    asyncio.run(main(7))


def test_a_heartbeat_is_answered_by_the_settings_of_the_moment(tmp_path: Path) -> None:
    def scenario(groups: Groups) -> None:
        def heartbeat(**first: Any) -> Any:
            request = ConsumerGroupHeartbeatRequest(group_id="group", member_id="member", **first)
            return groups.ask(request, version=1)

        joined = heartbeat(rebalance_timeout_ms=1000, subscribed_topic_names=["topic"], topic_partitions=[])
        assert joined.heartbeat_interval_ms == 5000
        commit_changes(groups.node, BrokerConfigChanged(None, {"group.consumer.heartbeat.interval.ms": "7000"}))
        later = heartbeat(member_epoch=joined.member_epoch)
        assert (later.error_code, later.heartbeat_interval_ms) == (ErrorCode.NONE, 7000)

    run(tmp_path, scenario)


def test_a_group_has_settings_of_its_own(tmp_path: Path) -> None:
    def scenario(groups: Groups) -> None:
        def heartbeat(**first: Any) -> Any:
            request = ConsumerGroupHeartbeatRequest(group_id="group", member_id="member", **first)
            return groups.ask(request, version=1)

        commit_changes(groups.node, GroupConfigChanged("group", {"consumer.heartbeat.interval.ms": "7000"}))
        joined = heartbeat(rebalance_timeout_ms=1000, subscribed_topic_names=["topic"], topic_partitions=[])
        assert joined.heartbeat_interval_ms == 7000
        # Since then the broker allows less.
        static = {"group.consumer.max.heartbeat.interval.ms": "6000"}
        groups.node.config = BrokerConfig.load(overrides=[f"{name}={value}" for name, value in static.items()])
        assert heartbeat(member_epoch=joined.member_epoch).heartbeat_interval_ms == 6000
        commit_changes(groups.node, GroupConfigChanged("group", {}))
        assert heartbeat(member_epoch=joined.member_epoch).heartbeat_interval_ms == 5000

    run(tmp_path, scenario)


def test_a_member_that_joins_soon_after_an_assignment_waits_for_the_next(tmp_path: Path) -> None:
    def scenario(groups: Groups) -> None:
        def heartbeat(member_id: str, **first: Any) -> Any:
            request = ConsumerGroupHeartbeatRequest(group_id="group", member_id=member_id, **first)
            return groups.ask(request, version=1)

        joining = {"rebalance_timeout_ms": 1000, "subscribed_topic_names": ["topic"], "topic_partitions": []}
        first = heartbeat("first", **joining)
        assert len(first.assignment.topic_partitions) == 1
        assert heartbeat("second", **joining).member_epoch == first.member_epoch
        commit_changes(groups.node, BrokerConfigChanged(None, {"group.consumer.assignment.interval.ms": "0"}))
        assert heartbeat("third", **joining).member_epoch > first.member_epoch

    run(tmp_path, scenario)

"""Groups whose members move between the two protocols one by one, as in a rolling upgrade (KIP-848)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from penstock.broker.deferred import Deferred
from penstock.broker.node import Node
from penstock.broker.request_context import RequestContext
from penstock.broker.router import BY_API_KEY
from penstock.coordinator import classic_members
from penstock.coordinator.consumer_protocol import read_assignment, write_assignment
from penstock.core.errors import ProtocolError
from penstock.core.ids import TopicIdPartition, TopicName
from penstock.metadata.topics import NewTopic
from penstock.protocol.definitions.consumer_group_describe import ConsumerGroupDescribeRequest
from penstock.protocol.definitions.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, RequestTopicPartitions
from penstock.protocol.definitions.heartbeat import HeartbeatRequest
from penstock.protocol.definitions.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.definitions.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from penstock.protocol.error_codes import BrokerError, ErrorCode
from tests.integration.broker.conversation import Topic
from tests.integration.broker.group_conversation import commit_request, join_request, subscription
from tests.unit.broker.nodes import FakeConnection, make_topics, node_in

GROUP = "group"
TOPIC = "orders"
LEAVE_EPOCH = -1


class Groups:
    """A node's handlers, asked as a connection would, and what a client of either protocol knows."""

    def __init__(self, node: Node) -> None:
        self.node = node
        if TopicName(TOPIC) not in node.image.topics:
            make_topics(node, NewTopic(TOPIC, 4, 1))
        self.topic_id = node.image.topics[TopicName(TOPIC)].topic_id

    async def ask(self, request: Any, version: int) -> Any:
        context = RequestContext(self.node, version, "client", FakeConnection())
        answer = BY_API_KEY[request.API_KEY].handle(request, context)
        self.node.appends.write()
        while isinstance(answer, Deferred):
            if answer.done:
                return answer.response
            await asyncio.sleep(0.001)
            self.node.appends.write()
        return answer

    @property
    def kind(self) -> str:
        return type(self.node.groups.shard(GROUP).groups[GROUP]).__name__

    def assignment(self, *indexes: int) -> bytes:
        places = [TopicIdPartition(self.topic_id, index) for index in indexes]
        return write_assignment(places, {self.topic_id: TOPIC}, 0)

    def read(self, assignment: bytes) -> set[int]:
        return {index for _, index in read_assignment(assignment, {TOPIC: self.topic_id})}


@dataclass
class Classic:
    groups: Groups
    member_id: str = ""
    generation_id: int = -1
    instance_id: str | None = None
    protocol_type: str = "consumer"
    protocols: tuple[str, ...] = ("range",)

    async def join(self) -> ErrorCode:
        for _ in range(2):
            request = join_request(
                GROUP,
                self.member_id,
                instance_id=self.instance_id,
                metadata=subscription(TOPIC),
                protocol_type=self.protocol_type,
                protocols=self.protocols,
            )
            answer = await self.groups.ask(request, 9)
            self.member_id = answer.member_id or self.member_id
            if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
                break
        if answer.error_code == ErrorCode.NONE:
            self.generation_id = answer.generation_id
            self.leads = answer.leader == self.member_id
        return ErrorCode(answer.error_code)

    async def sync(self, **assignments: bytes) -> set[int] | ErrorCode:
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=self.protocol_type,
            protocol_name=self.protocols[0],
            assignments=[SyncGroupRequestAssignment(member_id=k, assignment=v) for k, v in assignments.items()],
        )
        answer = await self.groups.ask(request, 5)
        return ErrorCode(answer.error_code) if answer.error_code else self.groups.read(answer.assignment)

    async def start(self, *indexes: int) -> None:
        """Alone in a new classic group, with these partitions."""
        assert await self.join() == ErrorCode.NONE
        assert await self.sync(**{self.member_id: self.groups.assignment(*indexes)}) == set(indexes)

    async def heartbeat(self) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=GROUP,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        return ErrorCode((await self.groups.ask(request, 4)).error_code)

    async def leave(self) -> ErrorCode:
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        answer = await self.groups.ask(LeaveGroupRequest(group_id=GROUP, members=[identity]), 5)
        return ErrorCode(answer.error_code or answer.members[0].error_code)


@dataclass
class Newer:
    """A member of the newer protocol that owns at once what it is given."""

    groups: Groups
    member_id: str
    instance_id: str | None = None
    epoch: int = 0
    owned: frozenset[int] = frozenset()

    async def heartbeat(self, epoch: int | None = None) -> ErrorCode:
        epoch = self.epoch if epoch is None else epoch
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id=self.member_id, member_epoch=epoch, instance_id=self.instance_id
        )
        if epoch >= 0:
            request.rebalance_timeout_ms = 10_000
            request.subscribed_topic_names = [TOPIC]
            owned = [RequestTopicPartitions(topic_id=self.groups.topic_id, partitions=sorted(self.owned))]
            request.topic_partitions = owned if self.owned else []
        answer = await self.groups.ask(request, 1)
        if answer.error_code == ErrorCode.NONE:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                topics = answer.assignment.topic_partitions
                self.owned = frozenset(index for topic in topics for index in topic.partitions)
        return ErrorCode(answer.error_code)


Scenario = Callable[[Groups], Awaitable[None]]


def run(directory: Path, *scenarios: Scenario, **settings: str) -> None:
    """Each scenario in a node that was started again."""
    static = {
        "offsets.topic.num.partitions": "1",
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.assignment.interval.ms": "0",
        **{name.replace("_", "."): value for name, value in settings.items()},
    }

    async def main(scenario: Scenario) -> None:
        with node_in(directory, static) as node:
            await asyncio.wait_for(scenario(Groups(node)), 30)

    for scenario in scenarios:
        asyncio.run(main(scenario))


async def upgrade(groups: Groups) -> tuple[Classic, Newer]:
    """A classic member has all partitions, one of the newer protocol joins, and both reconcile."""
    classic, newer = Classic(groups), Newer(groups, "newer")
    await classic.start(0, 1, 2, 3)
    assert await newer.heartbeat() == ErrorCode.NONE
    assert groups.kind == "ConsumerGroup"
    assert await classic.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert await classic.join() == ErrorCode.NONE
    assert not classic.leads
    kept = await classic.sync()
    assert isinstance(kept, set)
    assert await newer.heartbeat() == ErrorCode.NONE
    assert len(kept) == len(newer.owned) == 2
    assert kept | newer.owned == {0, 1, 2, 3}
    assert await classic.heartbeat() == ErrorCode.NONE
    return classic, newer


def test_a_member_of_the_newer_protocol_joins_a_classic_group_with_members(tmp_path: Path) -> None:
    async def scenario(groups: Groups) -> None:
        classic, _ = await upgrade(groups)
        described = await groups.ask(ConsumerGroupDescribeRequest(group_ids=[GROUP]), 1)
        types = {member.member_id: member.member_type for member in described.groups[0].members}
        assert types == {classic.member_id: 0, "newer": 1}

    run(tmp_path, scenario)


def test_no_partition_has_two_owners_while_the_classic_member_has_not_joined_again(tmp_path: Path) -> None:
    async def scenario(groups: Groups) -> None:
        classic, newer = Classic(groups), Newer(groups, "newer")
        await classic.start(0, 1, 2, 3)
        assert await newer.heartbeat() == ErrorCode.NONE
        assert await newer.heartbeat() == ErrorCode.NONE
        assert newer.owned == frozenset()

    run(tmp_path, scenario)


def test_a_mixed_group_survives_a_restart_with_its_classic_members(tmp_path: Path) -> None:
    known: list[Any] = []

    async def before(groups: Groups) -> None:
        known.extend(await upgrade(groups))

    async def after(groups: Groups) -> None:
        classic, newer = known
        classic.groups = newer.groups = groups
        assert await classic.heartbeat() == ErrorCode.NONE
        assert await newer.heartbeat() == ErrorCode.NONE
        assert groups.kind == "ConsumerGroup"
        assert await newer.heartbeat(LEAVE_EPOCH) == ErrorCode.NONE
        assert groups.kind == "ClassicGroup"

    run(tmp_path, before, after)


def test_the_last_member_of_the_newer_protocol_leaves_a_classic_group_behind(tmp_path: Path) -> None:
    known: list[Classic] = []

    async def scenario(groups: Groups) -> None:
        classic, newer = await upgrade(groups)
        generation_id = classic.generation_id
        topic = Topic(TOPIC, groups.topic_id)
        request = commit_request(GROUP, topic, {0: 7}, member_id=classic.member_id, generation_id=generation_id)
        committed = await groups.ask(request, 9)
        assert committed.topics[0].partitions[0].error_code == ErrorCode.NONE
        assert await newer.heartbeat(LEAVE_EPOCH) == ErrorCode.NONE
        assert groups.kind == "ClassicGroup"
        # It learns so from an error after which clients join again.
        assert await classic.heartbeat() in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
        assert await classic.join() == ErrorCode.NONE
        assert classic.leads
        assert classic.generation_id > generation_id
        assert await classic.sync(**{classic.member_id: groups.assignment(0, 1, 2, 3)}) == {0, 1, 2, 3}
        assert await classic.heartbeat() == ErrorCode.NONE
        known.append(classic)

    async def after(groups: Groups) -> None:
        [classic] = known
        classic.groups = groups
        assert await classic.heartbeat() == ErrorCode.NONE
        assert groups.kind == "ClassicGroup"

    run(tmp_path, scenario, after)


@pytest.mark.parametrize("policy", ["disabled", "DOWNGRADE"])
def test_without_upgrades_a_classic_group_with_members_stays_classic(tmp_path: Path, policy: str) -> None:
    async def scenario(groups: Groups) -> None:
        classic = Classic(groups)
        await classic.start(0, 1, 2, 3)
        assert await Newer(groups, "newer").heartbeat() == ErrorCode.GROUP_ID_NOT_FOUND
        assert groups.kind == "ClassicGroup"
        assert await classic.heartbeat() == ErrorCode.NONE

    run(tmp_path, scenario, group_consumer_migration_policy=policy)


def test_without_downgrades_classic_members_stay_in_a_group_of_the_newer_protocol(tmp_path: Path) -> None:
    async def scenario(groups: Groups) -> None:
        classic, newer = await upgrade(groups)
        assert await newer.heartbeat(LEAVE_EPOCH) == ErrorCode.NONE
        assert groups.kind == "ConsumerGroup"
        assert await classic.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        assert await classic.join() == ErrorCode.NONE
        assert await classic.sync() == {0, 1, 2, 3}

    run(tmp_path, scenario, group_consumer_migration_policy="upgrade")


def test_a_group_of_another_protocol_is_not_upgraded(tmp_path: Path) -> None:
    async def scenario(groups: Groups) -> None:
        worker = Classic(groups, protocol_type="connect", protocols=("sessioned",))
        assert await worker.join() == ErrorCode.NONE
        assert await Newer(groups, "newer").heartbeat() == ErrorCode.GROUP_ID_NOT_FOUND
        assert groups.kind == "ClassicGroup"

    run(tmp_path, scenario)


def test_an_assignment_that_cannot_be_read_prevents_an_upgrade(tmp_path: Path) -> None:
    async def scenario(groups: Groups) -> None:
        classic = Classic(groups)
        assert await classic.join() == ErrorCode.NONE
        own_data = groups.assignment(0)[:-4] + (3).to_bytes(4, "big") + b"own"
        with pytest.raises(ProtocolError, match="assignor of the client's own"):
            await classic.sync(**{classic.member_id: own_data})  # it is the test that cannot read the answer
        assert await Newer(groups, "newer").heartbeat() == ErrorCode.GROUP_ID_NOT_FOUND
        assert await classic.heartbeat() == ErrorCode.NONE

    run(tmp_path, scenario)


def test_a_classic_member_joins_a_group_of_the_newer_protocol(tmp_path: Path) -> None:
    async def scenario(groups: Groups) -> None:
        newer, classic = Newer(groups, "newer"), Classic(groups)
        assert await newer.heartbeat() == ErrorCode.NONE
        assert newer.owned == {0, 1, 2, 3}
        assert await classic.join() == ErrorCode.NONE
        assert await classic.sync() == set()
        assert await newer.heartbeat() == ErrorCode.NONE  # is told to revoke
        assert await newer.heartbeat() == ErrorCode.NONE  # has revoked
        assert await classic.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        assert await classic.join() == ErrorCode.NONE
        assert await classic.sync() == {0, 1, 2, 3} - newer.owned
        stranger = Classic(groups, protocols=("roundrobin",))
        assert await stranger.join() == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        assert await classic.leave() == ErrorCode.NONE
        assert await newer.heartbeat() == ErrorCode.NONE
        assert await newer.heartbeat() == ErrorCode.NONE
        assert newer.owned == {0, 1, 2, 3}
        assert await classic.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID

    run(tmp_path, scenario)


def test_a_classic_member_that_has_only_its_id_prevents_nothing(tmp_path: Path) -> None:
    async def scenario(groups: Groups) -> None:
        classic, newer = Classic(groups), Newer(groups, "newer")
        answer = await groups.ask(join_request(GROUP, metadata=subscription(TOPIC)), 9)
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert await newer.heartbeat() == ErrorCode.NONE
        assert newer.owned == {0, 1, 2, 3}
        classic.member_id = answer.member_id
        assert await classic.join() == ErrorCode.NONE

    run(tmp_path, scenario, group_consumer_migration_policy="disabled")


def test_a_static_member_changes_its_protocol_without_leaving(tmp_path: Path) -> None:
    async def scenario(groups: Groups) -> None:
        classic = Classic(groups, instance_id="instance")
        await classic.start(0, 1, 2, 3)
        newer = Newer(groups, "newer", instance_id="instance")
        assert await newer.heartbeat() == ErrorCode.NONE
        assert newer.owned == {0, 1, 2, 3}
        assert await classic.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
        again = Classic(groups, instance_id="instance")
        assert await again.join() == ErrorCode.NONE
        assert groups.kind == "ClassicGroup"

    run(tmp_path, scenario)


def test_a_classic_member_that_does_not_join_again_leaves_the_group(tmp_path: Path) -> None:
    async def scenario(groups: Groups) -> None:
        classic, newer = Classic(groups), Newer(groups, "newer")
        await classic.start(0, 1, 2, 3)
        assert await newer.heartbeat() == ErrorCode.NONE
        assert await classic.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        group: Any = groups.node.groups.shard(GROUP).groups[GROUP]
        now_ms = groups.node.groups.now_ms()
        for later_ms in (4_000, 8_000):  # its session does not end
            with pytest.raises(BrokerError, match="rebalanc"):
                classic_members.heartbeat(group, classic.member_id, None, classic.generation_id, now_ms + later_ms)
            group.tick(now_ms + later_ms)
            assert len(group.describe().members) == 2
        group.tick(now_ms + 10_000)
        assert [member.metadata.member_id for member in group.describe().members] == ["newer"]

    run(tmp_path, scenario)

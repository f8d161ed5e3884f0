"""What a test says about groups over the wire client: members that join and sync by hand, commits and fetches."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from penstock.protocol.definitions.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from penstock.protocol.definitions.delete_groups import DeleteGroupsRequest
from penstock.protocol.definitions.describe_groups import DescribedGroup, DescribeGroupsRequest
from penstock.protocol.definitions.find_coordinator import FindCoordinatorRequest
from penstock.protocol.definitions.heartbeat import HeartbeatRequest
from penstock.protocol.definitions.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.definitions.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from penstock.protocol.definitions.list_groups import ListedGroup, ListGroupsRequest
from penstock.protocol.definitions.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocol.definitions.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocol.definitions.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from penstock.protocol.definitions.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from penstock.protocol.definitions.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from penstock.protocol.error_codes import ErrorCode
from tests.integration.broker.conversation import Topic, create_topic
from tests.wire_client import WireClient

SESSION_MS: Final = 6_000
JOIN_VERSION: Final = 9
NOTHING_COMMITTED: Final = -1


def wait_for_coordinator(client: WireClient) -> None:
    """Apache Kafka makes the topic of its groups when the first client looks for a coordinator, and takes its time."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        found = client.ask(FindCoordinatorRequest(key="any", key_type=0), 3)
        if found.error_code == ErrorCode.NONE:
            answer = client.ask(fetch_offsets_request("any", None, version=9), 9).groups[0]
            if answer.error_code == client.ask(ListGroupsRequest(), 5).error_code == ErrorCode.NONE:
                return
        time.sleep(0.1)
    raise AssertionError("there is no coordinator")


def known_topic(client: WireClient, name: str, *, partitions: int = 1) -> Topic:
    """A new topic. Apache Kafka's brokers hear of it a moment after its creation was answered."""
    topic = create_topic(client, name, partitions=partitions)
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
    while client.ask(request, 12).topics[0].error_code != ErrorCode.NONE:
        time.sleep(0.02)
    return topic


def subscription(*topics: str) -> bytes:
    """The consumer protocol's subscription, version 0."""
    out = (0).to_bytes(2, "big") + len(topics).to_bytes(4, "big")
    for topic in topics:
        out += len(topic).to_bytes(2, "big") + topic.encode()
    return out + (-1).to_bytes(4, "big", signed=True)


SUBSCRIPTION: Final = subscription("some-topic")


def join_request(
    group: str,
    member_id: str = "",
    *,
    instance_id: str | None = None,
    metadata: bytes = SUBSCRIPTION,
    session_timeout_ms: int = SESSION_MS,
    protocol_type: str = "consumer",
    protocols: tuple[str, ...] = ("range",),
) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type=protocol_type,
        protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in protocols],
    )


@dataclass
class Member:
    """One member of a classic group, with a connection of its own."""

    client: WireClient
    group: str
    member_id: str = ""
    generation_id: int = -1
    instance_id: str | None = None
    metadata: bytes = SUBSCRIPTION

    def ask_for_id(self) -> None:
        answer = self.client.ask(self._join(), JOIN_VERSION)
        assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
        self.member_id = answer.member_id

    def begin_join(self) -> int:
        return self.client.send(self._join(), JOIN_VERSION)

    def end_join(self, correlation_id: int) -> JoinGroupResponse:
        answer: JoinGroupResponse = self.client.receive(11, JOIN_VERSION, correlation_id)
        self.member_id, self.generation_id = answer.member_id, answer.generation_id
        return answer

    def join(self) -> JoinGroupResponse:
        """Alone: the answer comes when everybody has joined, and nobody else is to."""
        if not self.member_id and self.instance_id is None:
            self.ask_for_id()
        answer = self.end_join(self.begin_join())
        assert answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
        return answer

    def sync_request(self, assignments: Mapping[str, bytes] | None = None) -> SyncGroupRequest:
        return SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in (assignments or {}).items()
            ],
        )

    def sync(self, assignments: Mapping[str, bytes] | None = None) -> SyncGroupResponse:
        answer: SyncGroupResponse = self.client.ask(self.sync_request(assignments), 5)
        return answer

    def settle(self) -> None:
        """Joins and syncs as the only member."""
        self.join()
        answer = self.sync({self.member_id: b"all of it"})
        assert (answer.error_code, answer.assignment) == (ErrorCode.NONE, b"all of it")

    def heartbeat(self) -> ErrorCode:
        request = HeartbeatRequest(
            group_id=self.group,
            generation_id=self.generation_id,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )
        return ErrorCode(self.client.ask(request, 4).error_code)

    def leave(self) -> LeaveGroupResponse:
        identity = MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id)
        answer: LeaveGroupResponse = self.client.ask(LeaveGroupRequest(group_id=self.group, members=[identity]), 5)
        return answer

    def _join(self) -> JoinGroupRequest:
        return join_request(self.group, self.member_id, instance_id=self.instance_id, metadata=self.metadata)


# Offsets


def commit_request(
    group: str,
    topic: Topic,
    offsets: Mapping[int, int],
    *,
    member_id: str = "",
    generation_id: int = -1,
    instance_id: str | None = None,
    metadata: str | None = "note",
) -> OffsetCommitRequest:
    partitions = [
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_leader_epoch=3, committed_metadata=metadata
        )
        for index, offset in offsets.items()
    ]
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=generation_id,
        member_id=member_id,
        group_instance_id=instance_id,
        topics=[OffsetCommitRequestTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions)],
    )


def commit(
    client: WireClient, group: str, topic: Topic, offsets: Mapping[int, int], *, version: int = 9, **who: Any
) -> dict[int, ErrorCode]:
    """The codes by partition."""
    (answer,) = client.ask(commit_request(group, topic, offsets, **who), version).topics
    assert (answer.name, answer.topic_id) == ((topic.name, bytes(16)) if version < 10 else ("", topic.topic_id))
    return {each.partition_index: ErrorCode(each.error_code) for each in answer.partitions}


def commit_ok(client: WireClient, group: str, topic: Topic, offsets: Mapping[int, int], **who: Any) -> None:
    assert set(commit(client, group, topic, offsets, **who).values()) == {ErrorCode.NONE}


def fetch_offsets_request(
    group: str,
    topic: Topic | None,
    partitions: tuple[int, ...] = (0,),
    *,
    version: int,
    require_stable: bool = False,
    member_id: str | None = None,
    member_epoch: int = -1,
) -> OffsetFetchRequest:
    if version < 8:
        topics = None if topic is None else [OffsetFetchRequestTopic(name=topic.name, partition_indexes=[*partitions])]
        return OffsetFetchRequest(group_id=group, topics=topics, require_stable=require_stable)
    wanted = None
    if topic is not None:
        wanted = [OffsetFetchRequestTopics(name=topic.name, topic_id=topic.topic_id, partition_indexes=[*partitions])]
    asked = OffsetFetchRequestGroup(group_id=group, member_id=member_id, member_epoch=member_epoch, topics=wanted)
    return OffsetFetchRequest(groups=[asked], require_stable=require_stable)


def committed(
    client: WireClient,
    group: str,
    topic: Topic | None,
    partitions: tuple[int, ...] = (0,),
    *,
    version: int = 9,
    **options: Any,
) -> dict[int, Any]:
    """What the answer says of each partition of the topic."""
    request = fetch_offsets_request(group, topic, partitions, version=version, **options)
    response = client.ask(request, version)
    answer = response if version < 8 else response.groups[0]
    assert version < 2 or answer.error_code == ErrorCode.NONE, ErrorCode(answer.error_code)
    assert len(answer.topics) <= 1
    return {each.partition_index: each for named in answer.topics for each in named.partitions}


def committed_offset(client: WireClient, group: str, topic: Topic, partition: int = 0) -> int:
    return int(committed(client, group, topic, (partition,))[partition].committed_offset)


def delete_offsets(client: WireClient, group: str, topic: Topic, *partitions: int) -> tuple[ErrorCode, dict[int, int]]:
    wanted = [OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
    request = OffsetDeleteRequest(group_id=group, topics=[OffsetDeleteRequestTopic(name=topic.name, partitions=wanted)])
    answer = client.ask(request, 0)
    codes = {each.partition_index: each.error_code for named in answer.topics for each in named.partitions}
    return ErrorCode(answer.error_code), codes


# Administration


def delete_group(client: WireClient, group: str, version: int = 2) -> ErrorCode:
    (result,) = client.ask(DeleteGroupsRequest(groups_names=[group]), version).results
    assert result.group_id == group
    return ErrorCode(result.error_code)


def describe(client: WireClient, group: str, version: int = 6) -> DescribedGroup:
    (answer,) = client.ask(DescribeGroupsRequest(groups=[group]), version).groups
    described: DescribedGroup = answer
    return described


def list_groups(
    client: WireClient, *, states: tuple[str, ...] = (), types: tuple[str, ...] = (), version: int = 5
) -> dict[str, ListedGroup]:
    answer = client.ask(ListGroupsRequest(states_filter=[*states], types_filter=[*types]), version)
    assert answer.error_code == ErrorCode.NONE
    return {group.group_id: group for group in answer.groups}


# The newer protocol


@dataclass
class ConsumerMember:
    """One member of a group of the newer protocol."""

    client: WireClient
    group: str
    topics: tuple[str, ...]
    member_id: str
    member_epoch: int = 0
    instance_id: str | None = None
    owned: frozenset[tuple[bytes, int]] = frozenset()

    def request(self, **changed: Any) -> ConsumerGroupHeartbeatRequest:
        partitions: dict[bytes, list[int]] = {}
        for topic_id, index in sorted(self.owned):
            partitions.setdefault(topic_id, []).append(index)
        fields: dict[str, Any] = {
            "group_id": self.group,
            "member_id": self.member_id,
            "member_epoch": self.member_epoch,
            "instance_id": self.instance_id,
            "rebalance_timeout_ms": 10_000,
            "subscribed_topic_names": [*self.topics],
            "topic_partitions": [
                RequestTopicPartitions(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in partitions.items()
            ],
        }
        return ConsumerGroupHeartbeatRequest(**(fields | changed))

    def ask(self, **changed: Any) -> ConsumerGroupHeartbeatResponse:
        answer: ConsumerGroupHeartbeatResponse = self.client.ask(self.request(**changed), 1)
        return answer

    def beat(self) -> ConsumerGroupHeartbeatResponse:
        """A heartbeat that must be welcome; the member obeys at once what it is told."""
        answer = self.ask()
        assert answer.error_code == ErrorCode.NONE, answer.error_message
        self.member_epoch = answer.member_epoch
        if answer.assignment is not None:
            self.owned = frozenset(
                (topic.topic_id, index) for topic in answer.assignment.topic_partitions for index in topic.partitions
            )
        return answer

    def leave(self) -> ConsumerGroupHeartbeatResponse:
        return self.ask(member_epoch=-1)

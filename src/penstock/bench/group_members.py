"""Members of a consumer group that do nothing but be members: join, heartbeat, take what they are given.

Hand-made, one for each protocol, because a classic group of librdkafka's members took about half a second on either
broker, far more than a broker's own part. They own partitions and read nothing from them.

Owns the conversation of one member with its coordinator. It must never know of the other members, or which broker it
talks to. Invariant: a member owns a partition from the answer that gave it until the answer that takes it away.
"""

from __future__ import annotations

import asyncio
import math
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

from penstock.bench.errors import MeasurementError
from penstock.bench.group_connection import GroupConnection
from penstock.bench.ownership import range_deal
from penstock.protocol.codec import reader, writer
from penstock.protocol.definitions.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, RequestTopicPartitions
from penstock.protocol.definitions.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from penstock.protocol.definitions.consumer_protocol_subscription import ConsumerProtocolSubscription
from penstock.protocol.definitions.heartbeat import HeartbeatRequest
from penstock.protocol.definitions.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.definitions.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from penstock.protocol.error_codes import ErrorCode
from penstock.protocol.schema import Message

_JOIN_VERSION: Final = 9
_SYNC_VERSION: Final = 5
_HEARTBEAT_VERSION: Final = 4
_CONSUMER_HEARTBEAT_VERSION: Final = 1
_CONSUMER_PROTOCOL_VERSION: Final = 1
_VERSION_BYTES: Final = 2
_REBALANCE_TIMEOUT_MS: Final = 60_000
_ASSIGNOR: Final = "range"


@dataclass(frozen=True, slots=True)
class Membership:
    """What all members of the group have in common."""

    group_id: str
    topic: str
    partition_count: int
    session_timeout_ms: int
    heartbeat_interval_s: float


class Member(ABC):
    """`on_change` is called whenever `owned` has changed. `run` goes on until it is cancelled.

    A member heartbeats at `phase_s` after every whole interval of the loop's clock. With phases spread over the
    interval, somebody hears of a change at once and somebody an interval later, always; members that fell into step
    would all hear of it at once or all late, by chance.
    """

    def __init__(
        self, connection: GroupConnection, membership: Membership, phase_s: float, on_change: Callable[[], None]
    ) -> None:
        self.owned: frozenset[int] = frozenset()
        self._connection = connection
        self._membership = membership
        self._phase_s = phase_s
        self._heartbeat_number = 0
        self._on_change = on_change

    @property
    def last_heard_of_s(self) -> float:
        """When its last request left: from there the coordinator counts its session, at the earliest."""
        return self._connection.last_sent_s

    def die(self) -> None:
        self._connection.abort()

    @abstractmethod
    async def run(self) -> None: ...

    def _own(self, partitions: Iterable[int]) -> None:
        self.owned = frozenset(partitions)
        self._on_change()

    async def _wait_for_heartbeat(self) -> None:
        interval_s = self._membership.heartbeat_interval_s
        elapsed_s = asyncio.get_running_loop().time() - self._phase_s
        # The loop counts whole milliseconds, so it may wake a member just before its moment. What has been sent then
        # counts as sent: otherwise the member would send again and again until the moment has come.
        self._heartbeat_number = max(self._heartbeat_number, math.floor(elapsed_s / interval_s)) + 1
        await asyncio.sleep(self._heartbeat_number * interval_s - elapsed_s)


class ClassicMember(Member):
    """JoinGroup, SyncGroup, Heartbeat; eager: whoever joins again has given everything back."""

    def __init__(
        self, connection: GroupConnection, membership: Membership, phase_s: float, on_change: Callable[[], None]
    ) -> None:
        super().__init__(connection, membership, phase_s, on_change)
        self._member_id = ""
        self._generation_id = -1

    async def run(self) -> None:
        while True:
            joined = await self._join()
            if not await self._sync(joined):
                continue
            await self._heartbeat_until_rebalance()
            self._own(())

    async def _join(self) -> JoinGroupResponse:
        while True:
            answer: JoinGroupResponse = await self._connection.ask(self._join_request(), _JOIN_VERSION)
            self._member_id = answer.member_id
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                continue
            _require_no_error(answer, "a JoinGroup")
            self._generation_id = answer.generation_id
            return answer

    async def _sync(self, joined: JoinGroupResponse) -> bool:
        """False when the group is rebalancing again."""
        is_leader = joined.leader == self._member_id
        dealt = (
            range_deal([each.member_id for each in joined.members], self._membership.partition_count)
            if is_leader
            else {}
        )
        request = SyncGroupRequest(
            group_id=self._membership.group_id,
            generation_id=self._generation_id,
            member_id=self._member_id,
            protocol_type="consumer",
            protocol_name=_ASSIGNOR,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=self._encode_assignment(partitions))
                for member, partitions in dealt.items()
            ],
        )
        answer = await self._connection.ask(request, _SYNC_VERSION)
        if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
            return False
        _require_no_error(answer, "a SyncGroup")
        self._own(_decode_assignment(answer.assignment))
        return True

    async def _heartbeat_until_rebalance(self) -> None:
        request = HeartbeatRequest(
            group_id=self._membership.group_id, generation_id=self._generation_id, member_id=self._member_id
        )
        while True:
            await self._wait_for_heartbeat()
            answer = await self._connection.ask(request, _HEARTBEAT_VERSION)
            if answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS:
                return
            _require_no_error(answer, "a Heartbeat")

    def _join_request(self) -> JoinGroupRequest:
        subscription = ConsumerProtocolSubscription(topics=[self._membership.topic])
        return JoinGroupRequest(
            group_id=self._membership.group_id,
            session_timeout_ms=self._membership.session_timeout_ms,
            rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=_ASSIGNOR, metadata=_versioned(subscription))],
        )

    def _encode_assignment(self, partitions: list[int]) -> bytes:
        topic = TopicPartition(topic=self._membership.topic, partitions=partitions)
        return _versioned(ConsumerProtocolAssignment(assigned_partitions=[topic]))


class ConsumerMember(Member):
    """ConsumerGroupHeartbeat (KIP-848). What it is given or must give back is confirmed at once, as clients do."""

    def __init__(
        self, connection: GroupConnection, membership: Membership, phase_s: float, on_change: Callable[[], None]
    ) -> None:
        super().__init__(connection, membership, phase_s, on_change)
        self._member_id = str(uuid.uuid4())
        self._member_epoch = 0

    async def run(self) -> None:
        given = await self._heartbeat(
            rebalance_timeout_ms=_REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=[self._membership.topic],
            topic_partitions=[],
        )
        while True:
            while given is not None:
                self._own(partition for topic in given.topic_partitions for partition in topic.partitions)
                confirmed = [
                    RequestTopicPartitions(topic_id=topic.topic_id, partitions=topic.partitions)
                    for topic in given.topic_partitions
                ]
                given = await self._heartbeat(topic_partitions=confirmed)
            await self._wait_for_heartbeat()
            given = await self._heartbeat()

    async def _heartbeat(self, **what_changed: Any) -> Any:
        """A new assignment, or None when it is as it was."""
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._membership.group_id,
            member_id=self._member_id,
            member_epoch=self._member_epoch,
            **what_changed,
        )
        answer = await self._connection.ask(request, _CONSUMER_HEARTBEAT_VERSION)
        _require_no_error(answer, "a ConsumerGroupHeartbeat")
        self._member_epoch = answer.member_epoch
        return answer.assignment


def _require_no_error(answer: Any, request: str) -> None:
    if answer.error_code:
        raise MeasurementError(f"{request} was answered with {ErrorCode(answer.error_code).name}")


def _versioned(message: Message) -> bytes:
    out = bytearray(_CONSUMER_PROTOCOL_VERSION.to_bytes(_VERSION_BYTES, "big"))
    writer(type(message), _CONSUMER_PROTOCOL_VERSION)(out, message)
    return bytes(out)


def _decode_assignment(data: bytes) -> list[int]:
    read = reader(ConsumerProtocolAssignment, _CONSUMER_PROTOCOL_VERSION)
    content, _end = read(data, _VERSION_BYTES, len(data))
    return [partition for topic in content.assigned_partitions for partition in topic.partitions]

"""Members of a consumer group that join, heartbeat and accept their assignment, but read nothing.

There is one for each protocol. They are not librdkafka's, because a classic group of those took about half a second on
both brokers, far more than the broker's own part.

Owns the protocol of one member with its coordinator, the range assignment, and when a group has settled. It must not
know which broker it connects to. Invariant: a member owns a partition from the response that assigns it until the
response that revokes it.
"""

from __future__ import annotations

import asyncio
import math
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final

from penstock.bench.group_connection import GroupConnection
from penstock.bench.measurement import MeasurementError
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
    """The settings that all members of a group share."""

    group_id: str
    topic: str
    partition_count: int
    session_timeout_ms: int
    heartbeat_interval_s: float


class Member(ABC):
    """Calls `on_change` whenever `owned` has changed. `run` runs until it is cancelled.

    A member heartbeats at `phase_s` after every whole interval of the loop's clock. With phases spread over the
    interval, some member always learns of a change immediately and another one an interval later; members with the same
    phase would all learn of it early or all late, by chance.
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
        """When the last request was sent: the session ends no earlier than one timeout after it."""
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
        # The loop's timers have a resolution of a millisecond and may fire just before the due time. That heartbeat
        # counts; otherwise the member would send again and again until the due time.
        self._heartbeat_number = max(self._heartbeat_number, math.floor(elapsed_s / interval_s)) + 1
        await asyncio.sleep(self._heartbeat_number * interval_s - elapsed_s)


class ClassicMember(Member):
    """JoinGroup, SyncGroup, Heartbeat; eager: a member revokes all its partitions before it rejoins."""

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
        """Returns False if the group rebalances again."""
        is_leader = joined.leader == self._member_id
        dealt = (
            range_assignment([each.member_id for each in joined.members], self._membership.partition_count)
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
    """ConsumerGroupHeartbeat (KIP-848). Confirms assigned and revoked partitions immediately, as clients do."""

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
        """Returns a new assignment, or None if it is unchanged."""
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
        raise MeasurementError(f"{request} failed with {ErrorCode(answer.error_code).name}")


def _versioned(message: Message) -> bytes:
    out = bytearray(_CONSUMER_PROTOCOL_VERSION.to_bytes(_VERSION_BYTES, "big"))
    writer(type(message), _CONSUMER_PROTOCOL_VERSION)(out, message)
    return bytes(out)


def _decode_assignment(data: bytes) -> list[int]:
    read = reader(ConsumerProtocolAssignment, _CONSUMER_PROTOCOL_VERSION)
    content, _end = read(data, _VERSION_BYTES, len(data))
    return [partition for topic in content.assigned_partitions for partition in topic.partitions]


def range_assignment(members: Sequence[str], partition_count: int) -> dict[str, list[int]]:
    """Consecutive partitions for each member, in the order of member ids; the first members get the remainder."""
    share, left_over = divmod(partition_count, len(members))
    dealt: dict[str, list[int]] = {}
    start = 0
    for position, member in enumerate(sorted(members)):
        end = start + share + (position < left_over)
        dealt[member] = list(range(start, end))
        start = end
    return dealt


def is_settled(owned_by_member: Collection[Set[int]], partition_count: int) -> bool:
    """Whether every partition has exactly one owner and no member owns two partitions more than another.

    Both protocols end in an even assignment, so a complete but uneven group still has partitions to move.
    """
    if not owned_by_member or sum(map(len, owned_by_member)) != partition_count:
        return False
    sizes = [len(owned) for owned in owned_by_member]
    return max(sizes) - min(sizes) <= 1 and len(frozenset().union(*owned_by_member)) == partition_count

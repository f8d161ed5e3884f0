"""A member of a classic consumer group, request by request: join, sync, heartbeat, leave.

For members that must know when the coordinator last heard of them, and that share out something other than records.
`JoinGroup` waits for all members; heartbeats go over another connection meanwhile.

Owns the requests and their two connections. It must never know what partitions stand for, or when to rejoin.

Invariants: no retries: a lost connection raises ConnectionLost, and the next call looks for the coordinator again. One
thread at a time.
"""

from __future__ import annotations

import select
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from penstock.core.errors import ProtocolError
from penstock.protocol.codec import reader, writer
from penstock.protocol.definitions import consumer_protocol_assignment, consumer_protocol_subscription
from penstock.protocol.definitions.consumer_protocol_assignment import ConsumerProtocolAssignment
from penstock.protocol.definitions.consumer_protocol_subscription import ConsumerProtocolSubscription
from penstock.protocol.definitions.heartbeat import HeartbeatRequest, HeartbeatResponse
from penstock.protocol.definitions.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from penstock.protocol.definitions.leave_group import LeaveGroupRequest, MemberIdentity
from penstock.protocol.definitions.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from penstock.protocol.error_codes import ErrorCode, known_code
from penstock.protocol.schema import Message
from penstock.wire.cluster import Cluster
from penstock.wire.connection import Connection, Pending
from penstock.wire.errors import ConnectionLost
from penstock.wire.settings import WireSettings

_PROTOCOL_TYPE: Final = "consumer"
_SUBSCRIPTION_VERSION: Final = 2  # the first with the generation
_ASSIGNMENT_VERSION: Final = 0
_VERSION_BYTES: Final = 2
M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class GroupSettings:
    group_id: str
    topic: str
    """Whose partitions are shared out."""
    protocol: str
    """The name of the assignor, on which all members agree."""
    session_timeout_ms: int
    rebalance_timeout_ms: int


@dataclass(frozen=True, slots=True)
class Claim:
    """What a member says it owns, and since which generation."""

    partitions: frozenset[int]
    generation: int


@dataclass(frozen=True, slots=True)
class Joined:
    error: ErrorCode
    member_id: str
    generation: int = -1
    claims: Mapping[str, Claim] | None = None
    """Of all members; None unless this member is the one that assigns."""


class GroupConnections:
    """`settings` is the wire client's. `request.timeout.ms` bounds every request but JoinGroup."""

    def __init__(self, settings: Mapping[str, str], group: GroupSettings) -> None:
        self._cluster = Cluster(WireSettings.parse(settings))
        self._group = group
        self._connection: Connection | None = None
        self._join_connection: Connection | None = None
        self._joining: Pending | None = None

    def close(self) -> None:
        self._disconnect()
        self._cluster.close()

    def begin_join(self, member_id: str, claim: Claim) -> None:
        """Sends JoinGroup; `joined` takes the response."""
        subscription = ConsumerProtocolSubscription(topics=[self._group.topic], generation_id=claim.generation)
        if claim.partitions:
            owned = consumer_protocol_subscription.TopicPartition(
                topic=self._group.topic, partitions=sorted(claim.partitions)
            )
            subscription.owned_partitions.append(owned)
        metadata = _versioned(subscription, _SUBSCRIPTION_VERSION)
        request = JoinGroupRequest(
            group_id=self._group.group_id,
            session_timeout_ms=self._group.session_timeout_ms,
            rebalance_timeout_ms=self._group.rebalance_timeout_ms,
            member_id=member_id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=self._group.protocol, metadata=metadata)],
        )
        self._abandon_join()
        self._join_connection = connection = self._connect()
        extra_s = self._group.rebalance_timeout_ms / 1000
        self._joining = connection.send(request, connection.version_for(JoinGroupRequest), timeout_s=extra_s)

    def joined(self, wait_s: float) -> Joined | None:
        """None if there is no response after `wait_s`."""
        assert self._joining is not None
        assert self._join_connection is not None
        poller = select.poll()
        poller.register(self._join_connection.fileno(), select.POLLIN)
        if not poller.poll(max(wait_s, 0) * 1000):
            return None
        try:
            response: JoinGroupResponse = self._joining.response()
        finally:
            self._abandon_join()
        error = known_code(response.error_code)
        if error != ErrorCode.NONE or response.leader != response.member_id:
            return Joined(error, response.member_id, response.generation_id)
        claims = {member.member_id: self._claim(member.metadata) for member in response.members}
        return Joined(error, response.member_id, response.generation_id, claims)

    def sync(
        self, member_id: str, generation: int, assignments: Mapping[str, Iterable[int]]
    ) -> tuple[ErrorCode, frozenset[int]]:
        """`assignments` are empty unless this member assigns."""
        request = SyncGroupRequest(
            group_id=self._group.group_id,
            generation_id=generation,
            member_id=member_id,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=self._group.protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=each, assignment=self._assignment(partitions))
                for each, partitions in assignments.items()
            ],
        )
        response: SyncGroupResponse = self._ask(request)
        error = known_code(response.error_code)
        return error, frozenset() if error != ErrorCode.NONE else self._assigned(response.assignment)

    def heartbeat(self, member_id: str, generation: int) -> ErrorCode:
        request = HeartbeatRequest(group_id=self._group.group_id, generation_id=generation, member_id=member_id)
        response: HeartbeatResponse = self._ask(request)
        return known_code(response.error_code)

    def leave(self, member_id: str) -> None:
        request = LeaveGroupRequest(
            group_id=self._group.group_id, member_id=member_id, members=[MemberIdentity(member_id=member_id)]
        )
        self._ask(request)

    def _ask(self, request: Message) -> Any:
        if self._connection is None or not self._connection.is_open:
            self._connection = self._connect()
        try:
            return self._connection.ask(request, self._connection.version_for(type(request)))
        except ConnectionLost:
            self._disconnect()
            raise

    def _connect(self) -> Connection:
        """Raises ConnectionLost, or a retriable BrokerError while the group has no coordinator."""
        return self._cluster.dedicated_connection(self._cluster.find_coordinator("group", self._group.group_id))

    def _abandon_join(self) -> None:
        self._joining = None
        if self._join_connection is not None:
            self._join_connection.close()
            self._join_connection = None

    def _disconnect(self) -> None:
        self._abandon_join()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _claim(self, metadata: bytes) -> Claim:
        content = _parse(ConsumerProtocolSubscription, metadata, _SUBSCRIPTION_VERSION)
        owned = [
            each for topic in content.owned_partitions if topic.topic == self._group.topic for each in topic.partitions
        ]
        return Claim(frozenset(owned), content.generation_id)

    def _assignment(self, partitions: Iterable[int]) -> bytes:
        topic = consumer_protocol_assignment.TopicPartition(topic=self._group.topic, partitions=sorted(partitions))
        return _versioned(ConsumerProtocolAssignment(assigned_partitions=[topic]), _ASSIGNMENT_VERSION)

    def _assigned(self, assignment: bytes) -> frozenset[int]:
        if not assignment:
            return frozenset()
        content = _parse(ConsumerProtocolAssignment, assignment, _ASSIGNMENT_VERSION)
        return frozenset(
            each
            for topic in content.assigned_partitions
            if topic.topic == self._group.topic
            for each in topic.partitions
        )


def _versioned(message: Message, version: int) -> bytes:
    out = bytearray(version.to_bytes(_VERSION_BYTES, "big"))
    writer(type(message), version)(out, message)
    return bytes(out)


def _parse(kind: type[M], content: bytes, version: int) -> M:
    if len(content) < _VERSION_BYTES or int.from_bytes(content[:_VERSION_BYTES], "big") < version:
        raise ProtocolError("a member of the group speaks an older version of the consumer protocol")
    # A version begins like those before it.
    message, _ = reader(kind, version)(memoryview(content), _VERSION_BYTES, len(content))
    return message

"""Requests and effects of a classic group: plain data between the state machine and its shell.

Requests carry their version, because the rules of a classic group depend on it. A reply token is any object except
None; the group returns it exactly once, in a reply.

The order of effects matters: replies after a `GroupChanged` may be sent only when that change is durable.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from penstock.protocol.error_codes import ErrorCode

ReplyToken = object

UNKNOWN_MEMBER: Final = ""
"""The member id of a client that has none yet."""
NO_GENERATION: Final = -1

_MEMBER_ID_REQUIRED_SINCE: Final = 4
_SKIPPING_ASSIGNMENT_SINCE: Final = 9
_PROTOCOL_IN_SYNC_SINCE: Final = 5


class ClassicGroupState(Enum):
    """The values are Kafka's names for the states, as clients see them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberProtocol(NamedTuple):
    """An assignment protocol that a member supports, with its metadata for the leader."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinRequest:
    version: int
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: tuple[MemberProtocol, ...]

    @property
    def join_timeout_ms(self) -> int:
        """How long a rebalance waits for this member. Version 0 has a single timeout."""
        return self.session_timeout_ms if self.version == 0 else self.rebalance_timeout_ms

    @property
    def needs_member_id_first(self) -> bool:
        """Dynamic members join with their second request, so that a lost response leaves no member behind (KIP-394)."""
        return self.version >= _MEMBER_ID_REQUIRED_SINCE and self.instance_id is None

    @property
    def can_skip_assignment(self) -> bool:
        """Whether the response can tell a returning static leader to skip the assignment (KIP-814)."""
        return self.version >= _SKIPPING_ASSIGNMENT_SINCE


@dataclass(frozen=True, slots=True)
class SyncRequest:
    version: int
    member_id: str
    instance_id: str | None
    generation_id: int
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignments: tuple[tuple[str, bytes], ...] = ()
    """Member ids with their assignments, from the leader only."""

    @property
    def lacks_protocol(self) -> bool:
        return self.version >= _PROTOCOL_IN_SYNC_SINCE and (self.protocol_type is None or self.protocol_name is None)


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """By member id, or by instance id alone: so an administrator removes a static member."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class JoinedMember:
    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinResult:
    """Only the leader receives `members`."""

    error: ErrorCode
    member_id: str
    generation_id: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader_id: str = UNKNOWN_MEMBER
    skip_assignment: bool = False
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncResult:
    error: ErrorCode
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class LeaveResult:
    """The result for one leaving member, with the ids of the request."""

    error: ErrorCode
    member_id: str
    instance_id: str | None


@dataclass(frozen=True, slots=True)
class MemberSnapshot:
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    """The member's metadata for the selected protocol; that of other protocols is not kept."""
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """The durable state of a group, with the fields of Kafka's GroupMetadataValue."""

    group_id: str
    protocol_type: str
    """Empty for a group that never had members and only holds offsets."""
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    state_timestamp_ms: int
    """When the group entered its state; -1 from a record of an old version."""
    members: tuple[MemberSnapshot, ...]


class OffsetRetention(Enum):
    """When the retention time of a group's committed offsets begins."""

    KEEP = auto()
    SINCE_COMMIT = auto()
    SINCE_GROUP_WAS_EMPTY = auto()


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """The group as DescribeGroups returns it. As in Kafka, it has subscriptions only while the group is stable."""

    group_id: str
    state: ClassicGroupState
    protocol_type: str
    protocol_name: str
    members: tuple[MemberSnapshot, ...]


@dataclass(frozen=True, slots=True)
class GroupChanged:
    """The snapshot must be durable before the replies after it are sent."""

    snapshot: GroupSnapshot


@dataclass(frozen=True, slots=True)
class JoinReply:
    token: ReplyToken
    result: JoinResult


@dataclass(frozen=True, slots=True)
class SyncReply:
    token: ReplyToken
    result: SyncResult


@dataclass(frozen=True, slots=True)
class LeaveReply:
    token: ReplyToken
    results: tuple[LeaveResult, ...]


Effect = GroupChanged | JoinReply | SyncReply | LeaveReply

"""What a classic group is told, and what it answers: plain data between the state machine and whoever carries it out.

Nothing here decides anything. Requests carry their version, because the rules of a classic group depend on it. A reply
token is any object but None; the group only ever hands it back, once, in a reply.

The order of effects matters: what follows a `GroupChanged` in a list may be said only when that change is durable.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from penstock.protocol.error_codes import ErrorCode

ReplyToken = object

UNKNOWN_MEMBER: Final = ""
"""The member id of somebody who has none yet."""
NO_GENERATION: Final = -1

_MEMBER_ID_REQUIRED_SINCE: Final = 4
_SKIPPING_ASSIGNMENT_SINCE: Final = 9
_PROTOCOL_IN_SYNC_SINCE: Final = 5


class ClassicGroupState(Enum):
    """The values are the names that clients are shown."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


class MemberProtocol(NamedTuple):
    """One assignment protocol that a member offers, with what it says to whoever leads the group by it."""

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
        """How long the group waits for this member in a rebalance. Version 0 had only one timeout for everything."""
        return self.session_timeout_ms if self.version == 0 else self.rebalance_timeout_ms

    @property
    def needs_member_id_first(self) -> bool:
        """Dynamic members are added on their second request, so that lost answers leave no members behind (KIP-394)."""
        return self.version >= _MEMBER_ID_REQUIRED_SINCE and self.instance_id is None

    @property
    def can_skip_assignment(self) -> bool:
        """A returning static leader can be told that there is nothing to assign (KIP-814)."""
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
    """Member ids with their assignments; only the leader's count."""

    @property
    def lacks_protocol(self) -> bool:
        return self.version >= _PROTOCOL_IN_SYNC_SINCE and (self.protocol_type is None or self.protocol_name is None)


@dataclass(frozen=True, slots=True)
class LeavingMember:
    """By member id, or by instance id alone, which is how an administrator removes a static member."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class JoinedMember:
    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinResult:
    """`members` is for the leader alone; everybody else gets none."""

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
    """One of the leaving members, named as the request named it."""

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
    """What the member said in the protocol that the group chose; what it said in others is not kept."""
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupSnapshot:
    """All of a group that outlives its coordinator. It has the fields of Kafka's GroupMetadataValue."""

    group_id: str
    protocol_type: str
    """Empty for a group that never had members and only holds offsets."""
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    state_timestamp_ms: int
    """When the group came into its state, or -1 where a record of an old version does not say it."""
    members: tuple[MemberSnapshot, ...]


class OffsetRetention(Enum):
    """From when on the retention time of a group's committed offsets counts."""

    KEEP = auto()
    SINCE_COMMIT = auto()
    SINCE_GROUP_WAS_EMPTY = auto()


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """The group as an administrator sees it. Subscriptions are shown only while the group is stable, as Kafka does."""

    group_id: str
    state: ClassicGroupState
    protocol_type: str
    protocol_name: str
    members: tuple[MemberSnapshot, ...]


@dataclass(frozen=True, slots=True)
class GroupChanged:
    """To be made durable before anything that follows in the same list is said."""

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

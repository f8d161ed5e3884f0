"""The durable state of a consumer group (KIP-848), and the changes to it that are written to the log.

Each change is exactly one record of `__consumer_offsets`: its key, and its value or None for a tombstone. A group is
restored from the last change of each key, in any order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeAlias

from penstock.coordinator.classic_messages import MemberProtocol
from penstock.core.ids import TopicIdPartition

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
STATIC_LEAVE_EPOCH: Final = -2
"""The epoch of a static member that left temporarily and may return before its session expires."""


class MemberState(IntEnum):
    """The reconciliation state of a member; the numbers are those of Kafka's records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It must revoke partitions before it advances to the target epoch."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that other members have not released yet."""


@dataclass(frozen=True, slots=True)
class ClassicProtocols:
    """What only a member of the classic protocol has: it joins and syncs, while its group is of the newer protocol."""

    session_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]
    """In order of its preference."""

    @property
    def names(self) -> frozenset[str]:
        return frozenset(protocol.name for protocol in self.protocols)


@dataclass(frozen=True, slots=True)
class MemberMetadata:
    """What a member declared in its heartbeats, or a classic member in its joins."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicProtocols | None = None

    def subscribes_like(self, other: MemberMetadata) -> bool:
        """An empty pattern equals no pattern: clients send it to remove theirs."""
        return self.subscribed_topic_names == other.subscribed_topic_names and (
            self.subscribed_topic_regex or None
        ) == (other.subscribed_topic_regex or None)


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """A member's current assignment. Each partition has the epoch in which it was assigned (KIP-1251).

    `assigned` partitions are the member's to use. `pending_revocation` are partitions that it must release and has not
    reported as released: no other member may have them.
    """

    member_epoch: int = JOIN_EPOCH
    previous_member_epoch: int = JOIN_EPOCH
    state: MemberState = MemberState.STABLE
    assigned: Mapping[TopicIdPartition, int] = field(default_factory=dict)
    pending_revocation: Mapping[TopicIdPartition, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GroupEpoch:
    epoch: int
    metadata_hash: int
    """The hash of the subscribed topics when the epoch began."""


@dataclass(frozen=True, slots=True)
class TargetEpoch:
    assignment_epoch: int
    assignment_timestamp_ms: int


@dataclass(frozen=True, slots=True)
class GroupEpochChanged:
    """ConsumerGroupMetadata, key 3."""

    value: GroupEpoch | None


@dataclass(frozen=True, slots=True)
class MemberMetadataChanged:
    """ConsumerGroupMemberMetadata, key 5."""

    member_id: str
    value: MemberMetadata | None


@dataclass(frozen=True, slots=True)
class TargetEpochChanged:
    """ConsumerGroupTargetAssignmentMetadata, key 6."""

    value: TargetEpoch | None


@dataclass(frozen=True, slots=True)
class TargetAssignmentChanged:
    """ConsumerGroupTargetAssignmentMember, key 7."""

    member_id: str
    value: frozenset[TopicIdPartition] | None


@dataclass(frozen=True, slots=True)
class CurrentAssignmentChanged:
    """ConsumerGroupCurrentMemberAssignment, key 8."""

    member_id: str
    value: CurrentAssignment | None


ConsumerGroupChange: TypeAlias = (
    GroupEpochChanged | MemberMetadataChanged | TargetEpochChanged | TargetAssignmentChanged | CurrentAssignmentChanged
)


def member_removed(member_id: str) -> list[ConsumerGroupChange]:
    return [
        CurrentAssignmentChanged(member_id, None),
        TargetAssignmentChanged(member_id, None),
        MemberMetadataChanged(member_id, None),
    ]

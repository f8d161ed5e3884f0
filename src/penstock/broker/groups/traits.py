"""What the two kinds of group have in common: how they are listed, how their offsets age, and how they end."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from penstock.coordinator.classic_group import ClassicGroup
from penstock.coordinator.classic_messages import OffsetRetention
from penstock.coordinator.classic_subscription import CONSUMER_PROTOCOL_TYPE
from penstock.coordinator.consumer_group import ConsumerGroup
from penstock.coordinator.offsets import ExpiryRule
from penstock.coordinator.records.classic_group_records import snapshot_tombstone
from penstock.coordinator.records.codec import CoordinatorRecord
from penstock.coordinator.records.consumer_group_records import change_record

Group: TypeAlias = ClassicGroup | ConsumerGroup

CLASSIC: Final = "classic"
CONSUMER: Final = "consumer"


class ListedGroup(NamedTuple):
    group_id: str
    protocol_type: str
    state: str
    group_type: str


def listed(group: Group) -> ListedGroup:
    if isinstance(group, ClassicGroup):
        return ListedGroup(group.group_id, group.protocol_type, group.state.value, CLASSIC)
    return ListedGroup(group.group_id, CONSUMER_PROTOCOL_TYPE, group.phase.value, CONSUMER)


def is_unused(group: Group) -> bool:
    """It has no members, and none that are joining. Without offsets it can be forgotten."""
    return group.is_idle if isinstance(group, ClassicGroup) else group.is_empty


def member_count(group: Group) -> int:
    return len(group.describe().members)


def tombstones(group: Group) -> list[CoordinatorRecord]:
    """What makes the log forget the group; NON_EMPTY_GROUP while it has members."""
    if isinstance(group, ConsumerGroup):
        return [change_record(group.group_id, change) for change in group.delete()]
    group.check_delete()
    # A group that never had a generation was never written: it only holds offsets.
    return [snapshot_tombstone(group.group_id)] if group.generation_id else []


def expiry_rule(group: Group) -> ExpiryRule | None:
    """How the group's offsets age; None while they must stay, whatever their age."""
    if isinstance(group, ConsumerGroup):
        return ExpiryRule(is_subscribed=group.is_subscribed_to)
    match group.offset_retention():
        case OffsetRetention.KEEP:
            return None
        case OffsetRetention.SINCE_GROUP_WAS_EMPTY:
            return ExpiryRule(empty_since_ms=group.state_timestamp_ms)
        case OffsetRetention.SINCE_COMMIT:
            return ExpiryRule(is_subscribed=group.is_subscribed_to)

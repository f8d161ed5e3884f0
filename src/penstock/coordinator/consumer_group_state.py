"""The state of a consumer group that is in the log: epochs, members, target and current assignments.

Owns: applying a change. This is the only way to change the state, at run time and at restore, so that memory and log
cannot diverge.
Must never know: time, and why a change is made.

Invariant: `owners` maps every partition to the one member that holds it or has not released it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from penstock.coordinator.consumer_group_changes import (
    ConsumerGroupChange,
    CurrentAssignment,
    CurrentAssignmentChanged,
    GroupEpoch,
    GroupEpochChanged,
    MemberMetadata,
    MemberMetadataChanged,
    MemberState,
    TargetAssignmentChanged,
    TargetEpoch,
    TargetEpochChanged,
)
from penstock.core.ids import TopicIdPartition

_NO_PARTITIONS: Final[frozenset[TopicIdPartition]] = frozenset()
_NOT_STARTED: Final = CurrentAssignment()


class GroupPhase(StrEnum):
    """Kafka's names for the states of a group, as tools show them."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroupState:
    def __init__(self) -> None:
        self.group = GroupEpoch(0, 0)
        self.target = TargetEpoch(0, 0)
        self.members: dict[str, MemberMetadata] = {}
        self.static_members: dict[str, str] = {}
        """Member ids by instance id."""
        self.owners: dict[TopicIdPartition, str] = {}
        self._current: dict[str, CurrentAssignment] = {}
        self._targets: dict[str, frozenset[TopicIdPartition]] = {}

    def current(self, member_id: str) -> CurrentAssignment:
        return self._current.get(member_id, _NOT_STARTED)

    def target_of(self, member_id: str) -> frozenset[TopicIdPartition]:
        return self._targets.get(member_id, _NO_PARTITIONS)

    @property
    def phase(self) -> GroupPhase:
        if not self.members:
            return GroupPhase.EMPTY
        target_epoch = self.target.assignment_epoch
        if self.group.epoch > target_epoch:
            return GroupPhase.ASSIGNING
        current = [self.current(member_id) for member_id in self.members]
        arrived = all(each.state is MemberState.STABLE and each.member_epoch == target_epoch for each in current)
        return GroupPhase.STABLE if arrived else GroupPhase.RECONCILING

    def restore(self, changes: Iterable[ConsumerGroupChange]) -> None:
        """Applies the changes of the log, in any order; skips those of former members."""
        of_members: list[TargetAssignmentChanged | CurrentAssignmentChanged] = []
        for change in changes:
            if isinstance(change, TargetAssignmentChanged | CurrentAssignmentChanged):
                of_members.append(change)
            else:
                self.apply(change)
        for change in of_members:
            if change.member_id in self.members:
                self.apply(change)

    def apply(self, change: ConsumerGroupChange) -> None:
        match change:
            case GroupEpochChanged(value):
                self.group = value or GroupEpoch(0, 0)
            case TargetEpochChanged(value):
                self.target = value or TargetEpoch(0, 0)
            case MemberMetadataChanged(member_id, value):
                self._replace_metadata(member_id, value)
            case TargetAssignmentChanged(member_id, value):
                if value is None:
                    self._targets.pop(member_id, None)
                else:
                    self._targets[member_id] = value
            case CurrentAssignmentChanged(member_id, value):
                self._replace_current(member_id, value)

    def _replace_metadata(self, member_id: str, metadata: MemberMetadata | None) -> None:
        before = self.members.pop(member_id, None)
        instance_id = before.instance_id if before is not None else None
        if instance_id is not None and self.static_members.get(instance_id) == member_id:
            del self.static_members[instance_id]
        if metadata is not None:
            self.members[member_id] = metadata
            if metadata.instance_id is not None:
                self.static_members[metadata.instance_id] = member_id

    def _replace_current(self, member_id: str, current: CurrentAssignment | None) -> None:
        before = self.current(member_id)
        for partition in (*before.assigned, *before.pending_revocation):
            if self.owners.get(partition) == member_id:
                del self.owners[partition]
        if current is None:
            self._current.pop(member_id, None)
        else:
            self._current[member_id] = current
            self.owners.update(dict.fromkeys((*current.assigned, *current.pending_revocation), member_id))

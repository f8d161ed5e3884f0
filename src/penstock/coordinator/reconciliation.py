"""Reconciles a member's current assignment with its target (KIP-848): first revoke, then assign free partitions.

Owns: the three member states and their transitions.
Must never know: other members; `is_taken` tells who holds a partition.

Invariant: a partition leaves both `assigned` and `pending_revocation` only after the member has reported that it does
not own it. So the group may assign any partition that no member has in either of them.
Invariant: the member epoch advances to the target epoch only when nothing is left to revoke.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.coordinator.consumer_group_changes import CurrentAssignment, MemberState
from penstock.core.ids import TopicIdPartition


def reconcile(
    current: CurrentAssignment,
    target: frozenset[TopicIdPartition],
    target_epoch: int,
    owned: frozenset[TopicIdPartition] | None,
    is_taken: Callable[[TopicIdPartition], bool],
) -> CurrentAssignment:
    """The member's next assignment, or the same one.

    `owned` is what the member reports, None if it reports no change. `is_taken` tells whether another member holds a
    partition or has not released it yet.
    """
    if current.state is MemberState.STABLE and current.member_epoch == target_epoch:
        return current
    if current.state is MemberState.UNREVOKED_PARTITIONS and _still_owns(owned, current.pending_revocation):
        return current

    kept = {partition: epoch for partition, epoch in current.assigned.items() if partition in target}
    surplus = {partition: epoch for partition, epoch in current.assigned.items() if partition not in target}
    if surplus and _still_owns(owned, surplus):
        return CurrentAssignment(
            current.member_epoch, current.previous_member_epoch, MemberState.UNREVOKED_PARTITIONS, kept, surplus
        )
    wanted = [partition for partition in target if partition not in kept]
    free = {partition: target_epoch for partition in wanted if not is_taken(partition)}
    return CurrentAssignment(
        target_epoch,
        # A member that missed the response with its epoch stays valid until it receives a later one.
        current.previous_member_epoch if current.member_epoch == target_epoch else current.member_epoch,
        MemberState.STABLE if len(free) == len(wanted) else MemberState.UNRELEASED_PARTITIONS,
        kept | free,
    )


def _still_owns(owned: frozenset[TopicIdPartition] | None, partitions: Mapping[TopicIdPartition, int]) -> bool:
    """A member that reports nothing still owns its partitions."""
    return bool(partitions) and (owned is None or not owned.isdisjoint(partitions))

"""One member's way from what it has to what it shall have (KIP-848): give up first, then take what is free.

Owns: the three member states and when one follows another.
Must never know: other members; who holds a partition is a question put to the group.

Invariant: a partition leaves `assigned` and `pending_revocation` together only after the member itself has said that it
does not own it, so that the group may hand on whatever neither names.
Invariant: the member epoch moves to the target's only once nothing is left to give up.
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
    """The member's next step, which may be none.

    `owned` is what the member reports, None if it reports nothing new. `is_taken` tells whether another member holds a
    partition or has not given it up yet.
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
        # An epoch whose answer was lost must stay known for as long as the member has not been told another one.
        current.previous_member_epoch if current.member_epoch == target_epoch else current.member_epoch,
        MemberState.STABLE if len(free) == len(wanted) else MemberState.UNRELEASED_PARTITIONS,
        kept | free,
    )


def _still_owns(owned: frozenset[TopicIdPartition] | None, partitions: Mapping[TopicIdPartition, int]) -> bool:
    """A member that reports nothing owns what it owned."""
    return bool(partitions) and (owned is None or not owned.isdisjoint(partitions))

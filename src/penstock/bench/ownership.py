"""Which member owns which partitions: when a group has settled, and how a classic group's leader deals them out.

Pure: it knows partitions and members, and neither clocks nor brokers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set


def is_settled(owned_by_member: Collection[Set[int]], partition_count: int) -> bool:
    """Whether every partition has exactly one owner and no member owns two partitions more than another.

    Both protocols end in an even deal, so a group that is whole but uneven has still to move partitions: a newcomer
    owns nothing yet, or somebody is about to give one away.
    """
    if not owned_by_member or sum(map(len, owned_by_member)) != partition_count:
        return False
    sizes = [len(owned) for owned in owned_by_member]
    return max(sizes) - min(sizes) <= 1 and len(frozenset().union(*owned_by_member)) == partition_count


def range_deal(members: Sequence[str], partition_count: int) -> dict[str, list[int]]:
    """Neighbouring partitions for each member, in the order of their names; the first ones get those left over."""
    share, left_over = divmod(partition_count, len(members))
    dealt: dict[str, list[int]] = {}
    start = 0
    for position, member in enumerate(sorted(members)):
        end = start + share + (position < left_over)
        dealt[member] = list(range(start, end))
        start = end
    return dealt

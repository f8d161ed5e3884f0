"""Server-side assignors (KIP-848): the target assignment for given subscriptions and the previous assignment.

Owns: the assignors `range` and `uniform`. Both are pure functions: the same group gets the same assignment on every
broker and after every restart.
Must never know: epochs, the current assignments of members, or when an assignment takes effect.

Invariant: every partition of a topic that at least one member subscribes to is assigned exactly once, and only to a
member that subscribes to its topic.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from penstock.core.ids import TopicIdPartition

UNIFORM: Final = "uniform"
RANGE: Final = "range"


@dataclass(frozen=True, slots=True)
class AssignableMember:
    member_id: str
    instance_id: str | None
    topic_ids: frozenset[bytes]
    assigned: frozenset[TopicIdPartition]
    """The member's partitions in the previous assignment."""


Assignment: TypeAlias = dict[str, frozenset[TopicIdPartition]]
Assignor: TypeAlias = Callable[[Sequence[AssignableMember], Mapping[bytes, int]], Assignment]
"""Members and the partition counts of all topics they subscribe to -> the partitions of each member, by member id."""


def assign_range(members: Sequence[AssignableMember], partition_counts: Mapping[bytes, int]) -> Assignment:
    """Topic by topic: N = ceil(partitions / members), and member i takes partitions i * N up to (i + 1) * N.

    Only members that subscribe to the topic count, in order of their instance ids (static members first), then of their
    member ids. Kafka's range differs where the division leaves a remainder r: it gives floor(partitions / members) to
    each and one more to the first r members (10 partitions, 4 members: 3, 3, 2, 2), while the rule here fills members
    from the front (3, 3, 3, 1; 5 partitions, 4 members: 2, 2, 1, 0). Both are contiguous ranges, which is what keeps
    equal partitions of co-partitioned topics together.
    """
    ordered = _in_order(members)
    assigned: dict[str, list[TopicIdPartition]] = {member.member_id: [] for member in ordered}
    for topic_id, partition_count in sorted(partition_counts.items()):
        subscribers = [member for member in ordered if topic_id in member.topic_ids]
        if not subscribers:
            continue
        share = -(-partition_count // len(subscribers))
        for position, member in enumerate(subscribers):
            taken = range(position * share, min((position + 1) * share, partition_count))
            assigned[member.member_id].extend(TopicIdPartition(topic_id, partition) for partition in taken)
    return {member_id: frozenset(partitions) for member_id, partitions in assigned.items()}


def assign_uniform(members: Sequence[AssignableMember], partition_counts: Mapping[bytes, int]) -> Assignment:
    """Sticky and balanced: loads as equal as the subscriptions allow, with few partitions moved.

    Members keep the partitions that they may still have. Free partitions go to the least loaded subscriber, topics with
    the fewest subscribers first; then loads are balanced. With equal subscriptions, loads differ by at most one and no
    partition moves unnecessarily. Otherwise balancing moves partitions along chains of members (A to B, B to C) until
    no chain improves it, so the result is optimal.
    """
    sharing = _Sharing(_in_order(members))
    sharing.keep_previous(partition_counts)
    sharing.hand_out_free(partition_counts)
    sharing.level()
    return sharing.assignment()


ASSIGNORS: Final[Mapping[str, Assignor]] = {UNIFORM: assign_uniform, RANGE: assign_range}


def _in_order(members: Sequence[AssignableMember]) -> list[AssignableMember]:
    """Static members first, by instance id: a restart changes their member id and must not change their order."""
    return sorted(
        members,
        key=lambda member: (member.instance_id is None, member.instance_id or "", member.member_id),
    )


class _Sharing:
    """The working state of `assign_uniform`. Members are numbered in their order."""

    def __init__(self, members: Sequence[AssignableMember]) -> None:
        self._members = members
        self._loads = [0] * len(members)
        # Per member and topic: kept partitions, and newly assigned ones.
        self._kept: list[dict[bytes, list[int]]] = [{} for _ in members]
        self._fresh: list[dict[bytes, list[int]]] = [{} for _ in members]
        self._owned: set[TopicIdPartition] = set()
        # Members with equal subscriptions can receive the same partitions, so chains are searched among these classes:
        # most groups have one.
        classes: dict[frozenset[bytes], list[int]] = {}
        for index, member in enumerate(members):
            classes.setdefault(member.topic_ids, []).append(index)
        self._classes = list(classes.items())

    def keep_previous(self, partition_counts: Mapping[bytes, int]) -> None:
        for index, member in enumerate(self._members):
            for held in sorted(member.assigned):
                still_there = held.partition < partition_counts.get(held.topic_id, 0)
                if still_there and held.topic_id in member.topic_ids and held not in self._owned:
                    self._owned.add(held)
                    self._kept[index].setdefault(held.topic_id, []).append(held.partition)
                    self._loads[index] += 1

    def hand_out_free(self, partition_counts: Mapping[bytes, int]) -> None:
        subscribers_of = {
            topic_id: [index for topics, indexes in self._classes if topic_id in topics for index in indexes]
            for topic_id in partition_counts
        }
        for topic_id in sorted(partition_counts, key=lambda topic_id: (len(subscribers_of[topic_id]), topic_id)):
            by_load = [(self._loads[index], index) for index in subscribers_of[topic_id]]
            heapq.heapify(by_load)
            for partition in range(partition_counts[topic_id]) if by_load else ():
                if (topic_id, partition) not in self._owned:
                    load, index = by_load[0]
                    self._fresh[index].setdefault(topic_id, []).append(partition)
                    self._loads[index] = load + 1
                    heapq.heapreplace(by_load, (load + 1, index))

    def level(self) -> None:
        """Moves partitions from the most loaded members to the least loaded ones that they can reach.

        A member is final when it reaches no load at least two below its own, and so are all members within its reach:
        none of them is lighter by two than any remaining member, so none will receive a partition.
        """
        open_members = set(range(len(self._members)))
        while open_members:
            giver = max(open_members, key=lambda index: (self._loads[index], -index))
            came_from = self._reach(giver)
            lightest = min(came_from, key=lambda index: (self._loads[index], index))
            if self._loads[lightest] <= self._loads[giver] - 2:
                self._pass_along(giver, lightest, came_from)
            else:
                open_members -= came_from.keys()

    def _reach(self, giver: int) -> dict[int, tuple[int, bytes]]:
        """The members that a partition of `giver` can reach, each with its predecessor in the chain and the topic.

        Breadth first, so that chains are as short as possible.
        """
        came_from: dict[int, tuple[int, bytes]] = {giver: (giver, b"")}
        unreached = self._classes
        queue = [giver]
        for index in queue:
            if not unreached:
                break
            for topic_id in sorted(self._kept[index].keys() | self._fresh[index].keys()):
                for topics, indexes in unreached:
                    if topic_id in topics:
                        newly = [other for other in indexes if other not in came_from]
                        came_from.update((other, (index, topic_id)) for other in newly)
                        queue.extend(newly)
                unreached = [(topics, indexes) for topics, indexes in unreached if topic_id not in topics]
        return came_from

    def _pass_along(self, giver: int, receiver: int, came_from: Mapping[int, tuple[int, bytes]]) -> None:
        self._loads[giver] -= 1
        self._loads[receiver] += 1
        while receiver != giver:
            passer, topic_id = came_from[receiver]
            # Newly assigned partitions move first: they move anyway, and kept ones stay.
            held = self._fresh[passer] if topic_id in self._fresh[passer] else self._kept[passer]
            partition = held[topic_id].pop()
            if not held[topic_id]:
                del held[topic_id]
            self._fresh[receiver].setdefault(topic_id, []).append(partition)
            receiver = passer

    def assignment(self) -> Assignment:
        return {
            member.member_id: frozenset(
                TopicIdPartition(topic_id, partition)
                for held in (self._kept[index], self._fresh[index])
                for topic_id, partitions in held.items()
                for partition in partitions
            )
            for index, member in enumerate(self._members)
        }

"""What is known of consumer groups: their members, their progress, their lag. Plain values, filled by `admin.py`.

Invariant: offsets are those of the next record, as Kafka counts; None where a group has committed none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.core.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class GroupListing:
    name: str
    state: str
    """Kafka's word: `Stable`, `Empty`, `PreparingRebalance`, `CompletingRebalance`, `Assigning`, `Reconciling`, ..."""
    protocol: str
    """`classic`, or `consumer` for groups of KIP-848."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    name: str
    state: str
    protocol: str
    assignor: str
    coordinator: str
    members: tuple[GroupMember, ...]


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """How far a group is in one partition."""

    partition: TopicPartition
    committed: int | None
    end_offset: int | None
    """None for a partition that is not there any more."""
    member: GroupMember | None

    @property
    def lag(self) -> int | None:
        if self.committed is None or self.end_offset is None:
            return None
        return max(0, self.end_offset - self.committed)


def progress_of(
    group: GroupDescription,
    committed: Mapping[TopicPartition, int],
    end_offsets: Mapping[TopicPartition, int],
) -> list[PartitionProgress]:
    """Every partition that the group has committed or that a member has."""
    owners = {partition: member for member in group.members for partition in member.partitions}
    return [
        PartitionProgress(partition, committed.get(partition), end_offsets.get(partition), owners.get(partition))
        for partition in sorted({*committed, *owners})
    ]

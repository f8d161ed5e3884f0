"""Consumer groups as the admin client describes them: members, committed offsets, lag. Plain values.

Invariant: a committed offset is that of the next record to read; None where the group has committed none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from penstock.core.ids import TopicPartition


@dataclass(frozen=True, slots=True)
class GroupListing:
    name: str
    state: str
    """Kafka's name: `Stable`, `Empty`, `PreparingRebalance`, `CompletingRebalance`, `Assigning`, `Reconciling`, ..."""
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


_MEMBERS_NAMED: Final = 3


def members_text(group: GroupDescription) -> str:
    """Who keeps the group busy, and for how long at most. The protocol tells neither sessions nor heartbeats."""
    named = [f"{member.client_id} at {member.host.lstrip('/')}" for member in group.members[:_MEMBERS_NAMED]]
    if len(group.members) > _MEMBERS_NAMED:
        named.append(f"{len(group.members) - _MEMBERS_NAMED} more")
    setting = "group.consumer.session.timeout.ms" if group.protocol == "consumer" else "session.timeout.ms"
    members, them = ("member", "it") if len(group.members) == 1 else ("members", "them")
    return (
        f"group '{group.name}' has {len(group.members)} active {members} ({', '.join(named)}); stop {them} first; a "
        f"member that was killed leaves when its session ends, by default after 45 s ({setting})"
    )


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """A group's progress in one partition."""

    partition: TopicPartition
    committed: int | None
    end_offset: int | None
    """None for a partition that no longer exists."""
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
    """All partitions with a committed offset or an assigned member."""
    owners = {partition: member for member in group.members for partition in member.partitions}
    return [
        PartitionProgress(partition, committed.get(partition), end_offsets.get(partition), owners.get(partition))
        for partition in sorted({*committed, *owners})
    ]

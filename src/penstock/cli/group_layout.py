"""The output of `penstock group`: the columns of kafka-consumer-groups.sh, or JSON.

Invariant: an unknown value is `-` in a table and null in JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from penstock.client.groups import GroupDescription, GroupMember, PartitionProgress
from penstock.core.ids import TopicPartition
from penstock.core.mirrored_offsets import MirroredFrom

_NOTHING: Final = "-"


def table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    texts = [list(columns), *([_NOTHING if cell in (None, "") else str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[number]) for row in texts) for number in range(len(columns))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in texts)
    return "\n".join(lines)


def offsets_table(groups: Sequence[tuple[GroupDescription, Sequence[PartitionProgress]]]) -> str:
    columns = ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    columns += ["CONSUMER-ID", "HOST", "CLIENT-ID"]
    rows = []
    for group, progress in groups:
        for each in progress:
            member = each.member
            owner = [None] * 3 if member is None else [member.member_id, member.host, member.client_id]
            place = [group.name, each.partition.topic, each.partition.partition]
            rows.append([*place, each.committed, each.end_offset, each.lag, *owner])
    return table(columns, rows)


def members_table(groups: Sequence[GroupDescription], *, with_partitions: bool) -> str:
    columns = ["GROUP", "CONSUMER-ID", "GROUP-INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    if with_partitions:
        columns.append("ASSIGNMENT")
    rows = []
    for group in groups:
        for member in group.members:
            row = [group.name, member.member_id, member.instance_id, member.host, member.client_id]
            row.append(str(len(member.partitions)))
            rows.append([*row, _assignment(member)] if with_partitions else row)
    return table(columns, rows)


def states_table(groups: Sequence[GroupDescription]) -> str:
    columns = ["GROUP", "COORDINATOR", "ASSIGNMENT-STRATEGY", "STATE", "TYPE", "#MEMBERS"]
    return table(
        columns,
        [
            [group.name, group.coordinator, group.assignor, group.state, group.protocol, len(group.members)]
            for group in groups
        ],
    )


def new_offsets_table(group: str, offsets: Mapping[TopicPartition, int]) -> str:
    columns = ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"]
    return table(columns, [[group, topic, partition, offset] for (topic, partition), offset in offsets.items()])


def as_csv(offsets: Mapping[TopicPartition, int]) -> str:
    return "\n".join(f'"{topic}",{partition},{offset}' for (topic, partition), offset in offsets.items())


def as_json(
    group: GroupDescription, progress: Sequence[PartitionProgress], keeper: MirroredFrom | None
) -> dict[str, Any]:
    return {
        "group": group.name,
        "state": group.state,
        "type": group.protocol,
        "assignor": group.assignor or None,
        "coordinator": group.coordinator or None,
        "lag": _total_lag(progress),
        "positions": None if keeper is None else {"kept_in": keeper.keeper, "at": keeper.place},
        "offsets": [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "current_offset": each.committed,
                "log_end_offset": each.end_offset,
                "lag": each.lag,
                "consumer_id": None if each.member is None else each.member.member_id,
            }
            for each in progress
        ],
        "members": [
            {
                "consumer_id": member.member_id,
                "group_instance_id": member.instance_id,
                "host": member.host,
                "client_id": member.client_id,
                "partitions": [{"topic": topic, "partition": partition} for topic, partition in member.partitions],
            }
            for member in group.members
        ],
    }


def _total_lag(progress: Sequence[PartitionProgress]) -> int | None:
    """None if a partition that exists has no committed offset: then its lag is unknown, not 0."""
    existing = [each for each in progress if each.end_offset is not None]
    if any(each.committed is None for each in existing):
        return None
    return sum(each.lag or 0 for each in existing)


def _assignment(member: GroupMember) -> str:
    """`orders(0,1),audit(3)`"""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in member.partitions:
        by_topic.setdefault(topic, []).append(partition)
    return ",".join(f"{topic}({','.join(map(str, partitions))})" for topic, partitions in by_topic.items())

"""Which records the next job of a sink moves, and which task moves which of them. Pure arithmetic on offsets.

Invariants:
- A partition's records of one job belong to one task, so that a partition's order is kept.
- Each partition that has records gets some of them moved, however large the backlog of others is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.connect.connector import ConnectError
from penstock.connect.runtime.client_settings import Reset
from penstock.core.ids import TopicPartition
from penstock.pipeline.topics.planning import OffsetRange, limit_rows

Positions = Mapping[TopicPartition, int]


def start_positions(
    partitions: Sequence[TopicPartition],
    committed: Positions,
    earliest: Positions,
    latest: Positions,
    reset: Reset,
) -> dict[TopicPartition, int]:
    """Where to go on: the committed offset, or what `auto.offset.reset` says where there is none, or none any more."""
    positions = {}
    for partition in partitions:
        offset = committed.get(partition)
        if offset is not None and earliest[partition] <= offset <= latest[partition]:
            positions[partition] = offset
            continue
        if reset == "none":
            found = "has no committed offset" if offset is None else f"no longer has the committed offset {offset}"
            raise ConnectError(
                f"{partition} {found}, and consumer.override.auto.offset.reset is none; commit an offset with PATCH"
                " /connectors/NAME/offsets, or change the property"
            )
        positions[partition] = (earliest if reset == "earliest" else latest)[partition]
    return positions


def next_ranges(positions: Positions, ends: Positions, rows_max: int) -> list[OffsetRange]:
    """One range for each partition that has records."""
    limited = limit_rows(positions, ends, rows_max)
    return [
        OffsetRange(partition, start, limited[partition])
        for partition, start in sorted(positions.items())
        if limited.get(partition, start) > start
    ]


def share_out(ranges: Sequence[OffsetRange], task_count: int) -> list[tuple[OffsetRange, ...]]:
    """Whole ranges, the largest first, each to the task that has least to do. Tasks without work are left out."""
    tasks: list[list[OffsetRange]] = [[] for _ in range(min(task_count, len(ranges)))]
    sizes = [0] * len(tasks)
    for each in sorted(ranges, key=lambda wanted: (-wanted.size, wanted)):
        smallest = sizes.index(min(sizes))
        tasks[smallest].append(each)
        sizes[smallest] += each.size
    return [tuple(sorted(task)) for task in tasks]

"""How a batch is divided among tasks, and how many of the available records a batch may take.

Pure arithmetic on offsets. Sizes are differences of offsets: where compaction or transactions left gaps there are fewer
records than that, never more.

Invariants:
- The ranges of a plan cover each partition's range exactly once, in order.
- A limit never starves a partition: each one that has records gets at least one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from penstock.core.ids import TopicPartition
from penstock.pipeline.topics.offsets import Offsets


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """Half open: `end_offset` is the first offset that is not read."""

    topic_partition: TopicPartition
    start_offset: int
    end_offset: int

    @property
    def size(self) -> int:
        return self.end_offset - self.start_offset


def divide(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None, max_records_per_partition: int | None
) -> list[OffsetRange]:
    """One task for each partition that has records; more where an option asks for them. First none may be larger than
    `max_records_per_partition`, then the large ones are divided further until there are about `min_partitions`."""
    parts = sorted(piece for piece in ranges if piece.size > 0)
    if max_records_per_partition is not None:
        parts = [part for whole in parts for part in _cut(whole, -(-whole.size // max_records_per_partition))]
    if min_partitions is None or not parts or len(parts) >= min_partitions:
        return parts
    total = sum(part.size for part in parts)
    small = {part for part in parts if _share(part.size, total, min_partitions) == 1}
    large_total = total - sum(part.size for part in small)
    large_count = max(1, min_partitions - len(small))
    return [
        part
        for whole in parts
        for part in _cut(whole, 1 if whole in small else _share(whole.size, large_total, large_count))
    ]


def tasks_of(parts: Sequence[OffsetRange], *, together_rows: int) -> list[tuple[OffsetRange, ...]]:
    """What each task of a micro-batch reads: small parts share one, up to so many rows, and tasks are about alike.

    A task costs about as much as reading some ten thousand rows does. Where a few rows are much work, the next batch
    has more of them for it, and is divided.
    """
    if not together_rows:
        return [(part,) for part in parts]
    total = sum(part.size for part in parts)
    even_share = total / max(1, -(-total // together_rows))
    tasks: list[list[OffsetRange]] = []
    rows = 0
    for part in parts:
        if not tasks or rows >= even_share or rows + part.size > together_rows:
            tasks.append([])
            rows = 0
        tasks[-1].append(part)
        rows += part.size
    return [tuple(task) for task in tasks]


def _share(size: int, total: int, count: int) -> int:
    return max(1, math.floor(size / total * count + 0.5))


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    count = min(count, whole.size)
    bounds = [whole.start_offset + whole.size * index // count for index in range(count + 1)]
    return [OffsetRange(whole.topic_partition, start, end) for start, end in pairwise(bounds)]


def limit_rows(starts: Offsets, ends: Offsets, max_rows: int) -> dict[TopicPartition, int]:
    """Ends of a batch of about `max_rows`, shared among the partitions in proportion to what each has waiting."""
    waiting = {partition: end - starts[partition] for partition, end in ends.items() if end > starts[partition]}
    total = sum(waiting.values())
    if total <= max_rows:
        return dict(ends)
    limited = dict(ends)
    for partition, size in waiting.items():
        limited[partition] = starts[partition] + min(size, max(1, max_rows * size // total))
    return limited


def rows_between(starts: Offsets, ends: Offsets) -> int:
    return sum(max(0, end - starts[partition]) for partition, end in ends.items())

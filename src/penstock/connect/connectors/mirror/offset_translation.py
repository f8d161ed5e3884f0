"""Offsets of groups, translated from the source's partitions to the target's through offset syncs.

A sync says where one record of the source is on the target. A group that has read up to it, or beyond, continues at
the record behind it: what lies between two syncs cannot be counted, because transactions leave markers in both logs and
compaction leaves gaps. So a group never misses a record, and reads again at most what was written since the last sync
before its position.

Owns the syncs of each partition. It must not know where they come from. Pure.

Invariant: upstream and downstream offsets of a partition's syncs rise. A sync that is not above all others in both
replaces those that it is not above: records were copied again, or a topic was created again.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Final

from penstock.connect.connectors.mirror.records import OffsetSync
from penstock.core.ids import TopicPartition

SYNCS_MAX: Final = 4096
"""Of one partition. Older syncs are thinned out, so that groups far behind are translated less exactly."""


class OffsetSyncs:
    def __init__(self, syncs_max: int = SYNCS_MAX) -> None:
        self._syncs: dict[TopicPartition, tuple[list[int], list[int]]] = {}
        self._syncs_max = syncs_max

    def add(self, sync: OffsetSync) -> None:
        """In the order of the topic."""
        upstream, downstream = self._syncs.setdefault(sync.partition, ([], []))
        keep = bisect_right(upstream, sync.upstream_offset - 1)
        while keep and downstream[keep - 1] >= sync.downstream_offset:
            keep -= 1
        del upstream[keep:], downstream[keep:]
        upstream.append(sync.upstream_offset)
        downstream.append(sync.downstream_offset)
        if len(upstream) > self._syncs_max:
            older = len(upstream) // 2
            del upstream[1:older:2], downstream[1:older:2]

    def translate(self, partition: TopicPartition, upstream_offset: int) -> int | None:
        """The offset on the target from which a group reads on; None if no sync is old enough to tell."""
        upstream, downstream = self._syncs.get(partition, ((), ()))
        place = bisect_right(upstream, upstream_offset) - 1
        if place < 0:
            return None
        return downstream[place] + (0 if upstream[place] == upstream_offset else 1)

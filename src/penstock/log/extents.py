"""Which bytes of a segment have been verified since this process opened it.

An extent is a run of whole batches, with the offset that follows it, so that verification can go on at its end.
Invariant: extents are sorted and apart from each other; neighbours that touch are one.
"""

from __future__ import annotations

from bisect import bisect_right


class Extents:
    __slots__ = ("_end_offsets", "_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._end_offsets: list[int] = []

    def covering(self, position: int) -> tuple[int, int] | None:
        """The end of the extent that holds `position` and the offset that follows it; None if no extent does."""
        at = bisect_right(self._starts, position) - 1
        if at >= 0 and position < self._ends[at]:
            return self._ends[at], self._end_offsets[at]
        return None

    def add(self, start: int, end: int, end_offset: int) -> None:
        """Joins [start, end) with what it touches; it begins and ends at batches, as every extent does."""
        first = bisect_right(self._starts, start)
        if first and self._ends[first - 1] >= start:
            first -= 1
            start = self._starts[first]
        last = first
        while last < len(self._starts) and self._starts[last] <= end:
            if self._ends[last] >= end:
                end, end_offset = self._ends[last], self._end_offsets[last]
            last += 1
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]
        self._end_offsets[first:last] = [end_offset]

    def clear(self) -> None:
        self.__init__()  # type: ignore[misc]

"""The index of aborted transactions, whose records a `read_committed` reader skips: `.txnindex` files.

Owns: the entries of one log, in memory as machine arrays and on disk in Kafka's format (34 bytes each). A segment's
file contains the transactions whose ABORT marker is in that segment; a segment without any has no file.
Must never know: paths of files, open transactions, or what a reader does with the list.

Invariant: entries are in the order of their markers. Their last stable offsets never decrease, and no entry after the
first one whose last stable offset reaches an upper bound began before that bound.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

_ENTRY: Final = Struct(">hqqqq")  # version, producer id, first offset, last offset, last stable offset
_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int


class SavedIndex(NamedTuple):
    """The expected size and CRC of a segment's file."""

    size: int
    crc: int


class TransactionIndex:
    __slots__ = ("_first_offsets", "_last_offsets", "_last_stable_offsets", "_producer_ids", "saved")

    def __init__(self) -> None:
        self.saved: dict[int, SavedIndex] = {}  # by the base offset of the segment
        self._producer_ids = array("q")
        self._first_offsets = array("q")
        self._last_offsets = array("q")  # of the markers
        self._last_stable_offsets = array("q")  # the last stable offset after the marker

    def __len__(self) -> int:
        return len(self._producer_ids)

    @property
    def entries(self) -> list[tuple[int, int, int, int]]:
        """Producer id, first offset, last offset and last stable offset of each."""
        return list(
            zip(self._producer_ids, self._first_offsets, self._last_offsets, self._last_stable_offsets, strict=True)
        )

    def append(self, producer_id: int, first_offset: int, last_offset: int, last_stable_offset: int) -> None:
        """Ignores an entry that exists already: a replay may meet its marker again."""
        if self._last_offsets and last_offset <= self._last_offsets[-1]:
            return
        self._producer_ids.append(producer_id)
        self._first_offsets.append(first_offset)
        self._last_offsets.append(last_offset)
        self._last_stable_offsets.append(last_stable_offset)

    def overlapping(self, fetch_offset: int, upper_bound_offset: int) -> list[AbortedTransaction]:
        """The aborted transactions that may have records in [fetch_offset, upper_bound_offset)."""
        found = []
        for number in range(bisect_left(self._last_offsets, fetch_offset), len(self._last_offsets)):
            if self._first_offsets[number] < upper_bound_offset:
                found.append(AbortedTransaction(self._producer_ids[number], self._first_offsets[number]))
            if self._last_stable_offsets[number] >= upper_bound_offset:
                break
        return found

    def truncate(self, end_offset: int) -> None:
        """Removes the entries whose marker is at or after `end_offset`."""
        keep = bisect_left(self._last_offsets, end_offset)
        for column in self._columns:
            del column[keep:]

    def truncate_start(self, offset: int) -> None:
        """Removes the entries whose marker is before `offset`."""
        gone = bisect_left(self._last_offsets, offset)
        for column in self._columns:
            del column[:gone]

    def replace(self, start_offset: int, end_offset: int, entries: Sequence[tuple[int, int, int, int]]) -> None:
        """Replaces the entries whose marker is in [start_offset, end_offset)."""
        first = bisect_left(self._last_offsets, start_offset)
        end = bisect_left(self._last_offsets, end_offset)
        for number, column in enumerate(self._columns):
            column[first:end] = array("q", [entry[number] for entry in entries])

    def encode(self, start_offset: int, end_offset: int) -> bytes:
        """The file of the segment with the offsets [start_offset, end_offset); empty if it needs none."""
        first = bisect_left(self._last_offsets, start_offset)
        end = bisect_left(self._last_offsets, end_offset)
        return b"".join(
            _ENTRY.pack(_VERSION, *entry)
            for entry in zip(*(column[first:end] for column in self._columns), strict=True)
        )

    def extend(self, content: bytes, start_offset: int, end_offset: int) -> bool:
        """Adds the entries of the segment with these offsets; returns False and adds nothing if they are invalid.

        Segments must be added in order.
        """
        if len(content) % _ENTRY.size:
            return False
        entries = list(_ENTRY.iter_unpack(content))
        marker_must_follow = start_offset - 1
        stable_offset = self._last_stable_offsets[-1] if self._last_stable_offsets else 0
        for version, _, first_offset, last_offset, last_stable_offset in entries:
            if (
                version != _VERSION
                or not marker_must_follow < last_offset < end_offset
                or not 0 <= first_offset < last_offset
                or not stable_offset <= last_stable_offset <= last_offset + 1
            ):
                return False
            marker_must_follow, stable_offset = last_offset, last_stable_offset
        for _, producer_id, first_offset, last_offset, last_stable_offset in entries:
            self.append(producer_id, first_offset, last_offset, last_stable_offset)
        return True

    @property
    def _columns(self) -> tuple[array[int], ...]:
        return self._producer_ids, self._first_offsets, self._last_offsets, self._last_stable_offsets

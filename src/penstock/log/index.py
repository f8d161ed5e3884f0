"""The two sparse indexes of a segment, in memory as machine arrays and on disk in Kafka's format.

Owns: the entries, their order and format. An offset index entry (8 bytes) means "the batch at this position ends with
this offset"; a time index entry (12 bytes) means "no batch up to this offset is newer than this timestamp". Offsets are
relative to the segment's base offset.
Must never know: files, or whether an entry matches the log; `segment.py` checks that.

Invariant: entries are strictly increasing, so a lookup is one bisection at C speed.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from itertools import islice
from operator import le, lt
from typing import Final

OFFSET_ENTRY_BYTES: Final = 8
TIME_ENTRY_BYTES: Final = 12

_LITTLE_ENDIAN: Final = sys.byteorder == "little"


class OffsetIndex:
    __slots__ = ("offsets", "positions")

    def __init__(self) -> None:
        self.offsets = array("I")
        self.positions = array("I")

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def nbytes(self) -> int:
        return OFFSET_ENTRY_BYTES * len(self.offsets)

    def append(self, relative_offset: int, position: int) -> None:
        self.offsets.append(relative_offset)
        self.positions.append(position)

    def last_at_or_before(self, relative_offset: int) -> int:
        """The number of the last entry at or before the offset; -1 if there is none."""
        return bisect_right(self.offsets, relative_offset) - 1

    def first_at_or_after(self, position: int) -> int:
        """The number of the first entry whose batch begins at or after `position`."""
        return bisect_left(self.positions, position)

    def truncate(self, position: int) -> None:
        """Removes the entries of batches that start at or after `position`."""
        keep = bisect_left(self.positions, position)
        del self.offsets[keep:]
        del self.positions[keep:]

    def encode(self) -> bytes:
        words = array("I", bytes(OFFSET_ENTRY_BYTES * len(self.offsets)))
        words[0::2] = self.offsets
        words[1::2] = self.positions
        return _to_big_endian(words)

    @classmethod
    def decode(cls, content: bytes, log_bytes: int) -> OffsetIndex | None:
        """None if the content is not a valid index of a log file of `log_bytes`."""
        if len(content) % OFFSET_ENTRY_BYTES:
            return None
        words = _from_big_endian(content)
        index = cls()
        index.offsets = words[0::2]
        index.positions = words[1::2]
        if not (_increasing(index.offsets) and _increasing(index.positions)):
            return None
        if index.positions and index.positions[-1] >= log_bytes:
            return None
        return index


class TimeIndex:
    __slots__ = ("offsets", "timestamps")

    def __init__(self) -> None:
        self.timestamps = array("q")
        self.offsets = array("I")

    def __len__(self) -> int:
        return len(self.timestamps)

    @property
    def nbytes(self) -> int:
        return TIME_ENTRY_BYTES * len(self.timestamps)

    def append_if_newer(self, timestamp: int, relative_offset: int) -> None:
        if timestamp > (self.timestamps[-1] if self.timestamps else -1):
            self.timestamps.append(timestamp)
            self.offsets.append(relative_offset)

    def last_before(self, timestamp: int) -> int:
        """The number of the last entry before `timestamp`; -1 if there is none."""
        return bisect_left(self.timestamps, timestamp) - 1

    def truncate(self, relative_offset: int) -> None:
        """Removes the entries of batches that end at or after `relative_offset`."""
        keep = bisect_left(self.offsets, relative_offset)
        del self.timestamps[keep:]
        del self.offsets[keep:]

    def encode(self) -> bytes:
        halves = array("I", self.timestamps.tobytes())
        words = array("I", bytes(TIME_ENTRY_BYTES * len(self.timestamps)))
        words[0::3] = halves[1::2] if _LITTLE_ENDIAN else halves[0::2]
        words[1::3] = halves[0::2] if _LITTLE_ENDIAN else halves[1::2]
        words[2::3] = self.offsets
        return _to_big_endian(words)

    @classmethod
    def decode(cls, content: bytes) -> TimeIndex | None:
        """None if the content is not a valid time index."""
        if len(content) % TIME_ENTRY_BYTES:
            return None
        words = _from_big_endian(content)
        halves = array("I", bytes(8 * (len(words) // 3)))
        halves[0::2] = words[1::3] if _LITTLE_ENDIAN else words[0::3]
        halves[1::2] = words[0::3] if _LITTLE_ENDIAN else words[1::3]
        index = cls()
        index.timestamps = array("q", halves.tobytes())
        index.offsets = words[2::3]
        if not (_increasing(index.timestamps) and all(map(le, index.offsets, islice(index.offsets, 1, None)))):
            return None
        return index


def _increasing(values: array[int]) -> bool:
    return all(map(lt, values, islice(values, 1, None)))


def _to_big_endian(words: array[int]) -> bytes:
    if _LITTLE_ENDIAN:
        words.byteswap()
    return words.tobytes()


def _from_big_endian(content: bytes) -> array[int]:
    words = array("I", content)
    if _LITTLE_ENDIAN:
        words.byteswap()
    return words

"""One segment: a log file, its two indexes, and which of its bytes are verified or damaged.

Owns: the names of a segment's files, opening them on demand, the bookkeeping of an append, saving indexes.
Must never know: other segments, producers, epochs.

Invariants: bytes from `unverified_end` on were appended by this process, which verified them when they were produced,
or were verified since. `damage` is complete only if `examined`.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

from penstock.log.batches import MAX_OFFSET, BatchAnomaly
from penstock.log.config import LogConfig
from penstock.log.filesystem import File, FileSystem
from penstock.log.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, OffsetIndex, TimeIndex
from penstock.log.presence import NamedFile
from penstock.log.segment_caches import SegmentCaches
from penstock.protocol.record_batch import NO_TIMESTAMP

LOG_SUFFIX: Final = ".log"
INDEX_SUFFIX: Final = ".index"
TIME_INDEX_SUFFIX: Final = ".timeindex"
TRANSACTION_INDEX_SUFFIX: Final = ".txnindex"
SNAPSHOT_SUFFIX: Final = ".snapshot"
DELETED_SUFFIX: Final = ".deleted"  # after one of the others: the file waits for its removal
SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, INDEX_SUFFIX, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX)

RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1  # of a batch, from the base offset of its segment
_INDEX_OVERHEAD_BYTES: Final = 512  # the weight of two nearly empty indexes in a cache


def offset_name(offset: int) -> str:
    return f"{offset:020d}"


@dataclass(frozen=True, slots=True)
class DamagedRegion:
    """Bytes [start, end) are damaged and should contain the offsets [first_offset, next_offset)."""

    start: int
    end: int
    first_offset: int
    next_offset: int
    reason: str


class VerifiedExtents:
    """The bytes of a segment that have been verified since this process opened it.

    An extent is a run of whole batches, with the offset that follows it, so that verification can resume at its end.
    Invariant: extents are sorted and apart from each other; neighbours that touch are one.
    """

    __slots__ = ("_end_offsets", "_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._end_offsets: list[int] = []

    def covering(self, position: int) -> tuple[int, int] | None:
        """The end of the extent that contains `position` and the offset that follows it; None if no extent does."""
        at = bisect_right(self._starts, position) - 1
        if at >= 0 and position < self._ends[at]:
            return self._ends[at], self._end_offsets[at]
        return None

    def add(self, start: int, end: int, end_offset: int) -> None:
        """Adds [start, end), which begins and ends at batch boundaries, and merges it with adjacent extents."""
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


class Segment:
    __slots__ = (
        "_caches",
        "_fs",
        "_held_file",
        "_held_indexes",
        "_next_offset",
        "_path",
        "base_offset",
        "bytes_since_index_entry",
        "damage",
        "examined",
        "max_timestamp",
        "max_timestamp_known",
        "max_timestamp_offset",
        "size",
        "tail_offset",
        "tail_position",
        "unverified_end",
        "unverified_end_offset",
        "verified",
    )

    def __init__(self, fs: FileSystem, caches: SegmentCaches, directory: str, base_offset: int, size: int) -> None:
        self._fs = fs
        self._caches = caches
        self._path = f"{directory}/{offset_name(base_offset)}"
        self._held_file: File | None = None  # while the segment is appended to; otherwise the file is in the cache
        self._held_indexes: tuple[OffsetIndex, TimeIndex] | None = None  # likewise, and while they are not saved
        self.base_offset = base_offset
        self.size = size
        self.unverified_end = size
        self.unverified_end_offset = base_offset  # the expected offset after the unverified bytes
        self.verified = VerifiedExtents()
        self.examined = False
        self.damage: list[DamagedRegion] = []
        self.bytes_since_index_entry = 0
        # Where the last append began: most reads come from consumers at the end of the log. MAX_OFFSET before the first
        # append.
        self.tail_offset = self._next_offset = MAX_OFFSET
        self.tail_position = 0
        self.max_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = base_offset
        self.max_timestamp_known = False  # until the first request or append

    @classmethod
    def create(cls, fs: FileSystem, caches: SegmentCaches, directory: str, base_offset: int) -> Segment:
        """Creates an empty segment; truncates a file of the same name, which a failed append left."""
        segment = cls(fs, caches, directory, base_offset, 0)
        file = fs.open(segment.log_path, create=True)
        file.truncate(0)
        caches.files.put(segment.log_path, file)
        segment._held_indexes = (OffsetIndex(), TimeIndex())
        segment.examined = True
        segment.max_timestamp_known = True
        return segment

    @property
    def log_path(self) -> str:
        return self._path + LOG_SUFFIX

    @property
    def transaction_index_path(self) -> str:
        return self._path + TRANSACTION_INDEX_SUFFIX

    @property
    def file(self) -> File:
        file = self._held_file
        if file is None:
            path = self.log_path
            file = self._caches.files.get(path)
            if file is None:
                file = self._fs.open(path)
                self._caches.files.put(path, file)
        return file

    @property
    def named_file(self) -> NamedFile:
        """The log file under its name, for a check of presence; it is not opened for that."""
        return NamedFile(self.log_path, self._held_file)

    def hold_file(self) -> File:
        """Keeps the file open for appends."""
        self._held_file = self.file
        return self._held_file

    @property
    def indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Offset and time index. Raises BatchAnomaly if a file is missing or invalid."""
        indexes = self._held_indexes or self._caches.indexes.get(self._path)
        if indexes is None:
            indexes = self._load_indexes()
            self._caches.indexes.put(self._path, indexes, _weight(indexes))
        return indexes

    def reset_tail(self) -> None:
        """The file was changed other than by an append: the position of the last append is invalid."""
        self.tail_offset = self._next_offset = MAX_OFFSET

    def hold_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        """Keeps the indexes in memory, because they are about to change."""
        self._held_indexes = self.indexes
        self._caches.indexes.remove(self._path)
        return self._held_indexes

    def adopt_indexes(self, offset_index: OffsetIndex, time_index: TimeIndex) -> None:
        """Replaces the indexes by rebuilt ones, which are in memory until `save_indexes`."""
        self._held_indexes = (offset_index, time_index)
        self._caches.indexes.remove(self._path)

    def adopt_cleaned(self, file: File, offset_index: OffsetIndex, time_index: TimeIndex) -> None:
        """Uses the open file of a cleaned segment, which gets its name later; `release` is called then."""
        self.release_files()
        self._held_file = file
        self._held_indexes = (offset_index, time_index)

    def _load_indexes(self) -> tuple[OffsetIndex, TimeIndex]:
        try:
            offset_index = OffsetIndex.decode(self._fs.read_file(self._path + INDEX_SUFFIX), self.size)
            time_index = TimeIndex.decode(self._fs.read_file(self._path + TIME_INDEX_SUFFIX))
        except FileNotFoundError as missing:
            raise BatchAnomaly(0, "an index is missing") from missing
        if offset_index is None or time_index is None:
            raise BatchAnomaly(0, "an index is damaged")
        if self.size and not time_index and not self.max_timestamp_known:
            raise BatchAnomaly(0, "the time index is empty")
        return offset_index, time_index

    def last_index_entry(self) -> tuple[int, int] | None:
        """Last offset and position of the last indexed batch, without loading the index; None if it is empty."""
        if self._held_indexes is not None:
            offset_index = self._held_indexes[0]
            if not offset_index:
                return None
            return self.base_offset + offset_index.offsets[-1], offset_index.positions[-1]
        try:
            file = self._fs.open(self._path + INDEX_SUFFIX)
        except FileNotFoundError as missing:
            raise BatchAnomaly(0, "the index is missing") from missing
        size = file.size()
        if size == 0:
            return None
        index = OffsetIndex.decode(file.pread(OFFSET_ENTRY_BYTES, max(0, size - OFFSET_ENTRY_BYTES)), self.size)
        if index is None or size % OFFSET_ENTRY_BYTES:
            raise BatchAnomaly(0, "the index is damaged")
        return self.base_offset + index.offsets[0], index.positions[0]

    def save_indexes(self) -> None:
        """Writes both indexes if they may have changed; as in Kafka, the time index ends with the max timestamp."""
        if self._held_indexes is None:
            return
        offset_index, time_index = self._held_indexes
        if self.max_timestamp >= 0:
            time_index.append_if_newer(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
        self._fs.write_file(self._path + INDEX_SUFFIX, offset_index.encode(), sync=False)
        self._fs.write_file(self._path + TIME_INDEX_SUFFIX, time_index.encode(), sync=False)

    def release(self) -> None:
        """Moves file and indexes to the bounded caches; the indexes must have been saved."""
        if self._held_file is not None:
            self._caches.files.put(self.log_path, self._held_file)
            self._held_file = None
        if self._held_indexes is not None:
            self._caches.indexes.put(self._path, self._held_indexes, _weight(self._held_indexes))
            self._held_indexes = None

    def release_files(self) -> None:
        """Releases the open file and the loaded indexes. Slices that are being sent keep the file open."""
        self._caches.files.remove(self.log_path)
        self._caches.indexes.remove(self._path)
        self._held_file = None
        self._held_indexes = None

    def remove(self) -> None:
        self.release_files()
        for suffix in SEGMENT_SUFFIXES:
            try:
                self._fs.remove_file(self._path + suffix)
            except FileNotFoundError:
                continue

    def retire(self) -> list[str]:
        """Renames the files, and returns the paths under which they wait for their removal."""
        self.release_files()
        retired = []
        for suffix in SEGMENT_SUFFIXES:
            path = self._path + suffix + DELETED_SUFFIX
            try:
                self._fs.rename(self._path + suffix, path)
            except FileNotFoundError:
                continue
            retired.append(path)
        return retired

    def index_is_full(self, config: LogConfig) -> bool:
        offset_index, time_index = self.indexes
        most = config.segment_index_bytes
        # As in Kafka, the last entry of the time index is reserved for the final max timestamp.
        return len(offset_index) >= most // OFFSET_ENTRY_BYTES or len(time_index) >= max(
            1, most // TIME_ENTRY_BYTES - 1
        )

    def load_max_timestamp(self) -> None:
        """Loads the max timestamp from the last entry of the time index."""
        if not self.max_timestamp_known:
            _, time_index = self.indexes
            if time_index:
                self.max_timestamp = time_index.timestamps[-1]
                self.max_timestamp_offset = self.base_offset + time_index.offsets[-1]
            self.max_timestamp_known = True

    def note_append(self, batches: list[tuple[int, int, int]], index_interval_bytes: int) -> bool:
        """Updates the segment after a write of consecutive batches: (last offset, size, max timestamp) of each.

        Returns whether an index entry was added.
        """
        entry_added = False
        position = self.size
        self.tail_offset = self._next_offset
        self.tail_position = position
        since_entry = self.bytes_since_index_entry
        for last_offset, size, timestamp in batches:
            if timestamp > self.max_timestamp:
                self.max_timestamp = timestamp
                self.max_timestamp_offset = last_offset
            if since_entry > index_interval_bytes:
                offset_index, time_index = self.indexes
                offset_index.append(last_offset - self.base_offset, position)
                if self.max_timestamp >= 0:
                    time_index.append_if_newer(self.max_timestamp, self.max_timestamp_offset - self.base_offset)
                since_entry = 0
                entry_added = True
            position += size
            since_entry += size
        self.bytes_since_index_entry = since_entry
        self._next_offset = last_offset + 1
        self.size = position
        return entry_added


def _weight(indexes: tuple[OffsetIndex, TimeIndex]) -> int:
    return indexes[0].nbytes + indexes[1].nbytes + _INDEX_OVERHEAD_BYTES

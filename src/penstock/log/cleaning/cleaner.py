"""Compacts sealed segments: reads them, and writes new ones next to them under the suffix `.cleaned`.

An order holds everything that the work needs, and the result everything that follows from it; both can be sent to
another process. The files that are read never change, so no lock is needed. `swap.py` puts the new segments in their
place.

Owns: which records, batches and markers stay. Kafka's rules: the newest record of each key stays; a tombstone and a
marker go once their delete horizon has passed (KIP-534); aborted data goes; the last batch of a producer stays, if need
be empty, because it has the producer's last sequence.
Must never know: an open log, or where it runs.

Invariants: offsets and their order never change. The last batch of a new segment is the last batch of the segments that
it replaces, if need be empty: so the file itself tells which offsets it replaces.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from penstock.core import limits
from penstock.core.ids import NO_PRODUCER_ID
from penstock.log.batches import BatchAnomaly, header_flaw
from penstock.log.cleaning.key_offsets import KeyOffsets, NewestOffsets
from penstock.log.cleaning.plan import SourceSegment, grouped
from penstock.log.cleaning.transactions import AbortedEntry, ReadTransactions
from penstock.log.config import NEVER
from penstock.log.filesystem import File, FileSystem, write_fully
from penstock.log.index import OffsetIndex, TimeIndex
from penstock.log.segment import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SEGMENT_SUFFIXES,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_name,
)
from penstock.log.transaction_index import TransactionIndex
from penstock.protocol.compression import decompress
from penstock.protocol.record_batch import HEADER_BYTES, NO_TIMESTAMP, BatchHeader, crc_holds, parse_header
from penstock.protocol.record_filtering import keyed_records, with_records, without_records

CLEANED_SUFFIX: Final = ".cleaned"

_READ_BYTES: Final = 1 << 20
_WRITE_BYTES: Final = 1 << 20
NO_DATA: Final = -1
HASH_SEED_BYTES: Final = 32


@dataclass(frozen=True, slots=True)
class CleaningOrder:
    directory: str
    segments: tuple[SourceSegment, ...]
    """All segments from the start of the log to the end of the part that may be cleaned."""
    first_dirty_offset: int
    now_ms: int
    delete_retention_ms: int
    segment_bytes: int
    index_interval_bytes: int
    aborted: tuple[AbortedEntry, ...]
    last_batches: dict[int, tuple[int, int]]
    """The last offset (NO_DATA if a marker was the last) and the epoch of each producer."""
    keys_max: int
    hash_seed: bytes = bytes(HASH_SEED_BYTES)
    """A secret, so that no client can choose keys that collide."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """A cleaned segment, and the segments [base_offset, end_offset) that it replaces."""

    base_offset: int
    end_offset: int
    replaced: tuple[int, ...]
    size: int
    max_timestamp: int
    max_timestamp_offset: int
    aborted: tuple[AbortedEntry, ...]


@dataclass(frozen=True, slots=True)
class CleaningResult:
    directory: str
    replacements: tuple[Replacement, ...]
    clean_end_offset: int
    """The log is clean up to here once the replacements are in place."""
    bytes_read: int
    bytes_written: int


NewOffsets = Callable[[int], NewestOffsets]


def clean(order: CleaningOrder, fs: FileSystem, new_offsets: NewOffsets = KeyOffsets) -> CleaningResult:
    """Writes the new segments, synced. Raises BatchAnomaly, naming the file, where a segment is damaged."""
    offsets = new_offsets(order.keys_max)
    clean_end = _find_newest(order, fs, offsets)
    sources = [segment for segment in order.segments if segment.base_offset < clean_end]
    transactions = ReadTransactions(order.aborted, 0)
    replacements = []
    for group in grouped(sources, order.segment_bytes):
        replacement = _GroupCleaner(order, fs, group, offsets, clean_end, transactions).run()
        if replacement is not None:
            replacements.append(replacement)
    if replacements:
        fs.sync_directory(order.directory)
    return CleaningResult(
        order.directory,
        tuple(replacements),
        clean_end,
        bytes_read=sum(segment.size for segment in sources),
        bytes_written=sum(replacement.size for replacement in replacements),
    )


def discard(directory: str, fs: FileSystem, *, except_offsets: Collection[int] = ()) -> None:
    """Removes the files that cleanings have left, except those of new segments with these base offsets."""
    kept = tuple(offset_name(offset) for offset in except_offsets)
    for name in fs.list_directory(directory):
        if name.endswith(CLEANED_SUFFIX) and not name.startswith(kept):
            with suppress(FileNotFoundError):
                fs.remove_file(f"{directory}/{name}")


def _find_newest(order: CleaningOrder, fs: FileSystem, offsets: NewestOffsets) -> int:
    """Finds the newest offset of each key in the dirty part, and returns the end of the part that was read."""
    dirty = [segment for segment in order.segments if segment.end_offset > order.first_dirty_offset]
    transactions = ReadTransactions(order.aborted, dirty[0].base_offset if dirty else 0)
    for segment in dirty:
        for _, batch, header in _batches(order.directory, fs, segment):
            if header.is_control:
                transactions.is_marker_needed(batch, header)
                continue
            is_aborted = transactions.is_aborted(header)
            if is_aborted or header.end_offset <= order.first_dirty_offset or header.records_count == 0:
                continue
            if offsets.is_full:
                return header.base_offset
            offsets.add_records(_payload(batch, header), header.records_count, header.base_offset)
    return order.segments[-1].end_offset


@dataclass(slots=True)
class _Indexes:
    """The bookkeeping of `Segment.note_append`."""

    base_offset: int
    interval_bytes: int
    offset_index: OffsetIndex = field(default_factory=OffsetIndex)
    time_index: TimeIndex = field(default_factory=TimeIndex)
    max_timestamp: int = NO_TIMESTAMP
    max_timestamp_offset: int = 0
    since_entry: int = 0

    def add(self, header: BatchHeader, position: int) -> None:
        last_offset = header.end_offset - 1
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
            self.max_timestamp_offset = last_offset
        if self.since_entry > self.interval_bytes:
            self.offset_index.append(last_offset - self.base_offset, position)
            self._add_time()
            self.since_entry = 0
        self.since_entry += header.size

    def _add_time(self) -> None:
        if self.max_timestamp >= 0:
            self.time_index.append_if_newer(self.max_timestamp, self.max_timestamp_offset - self.base_offset)

    def encoded(self) -> tuple[bytes, bytes]:
        self._add_time()
        return self.offset_index.encode(), self.time_index.encode()


class _GroupCleaner:
    """Writes one new segment."""

    def __init__(
        self,
        order: CleaningOrder,
        fs: FileSystem,
        group: list[SourceSegment],
        offsets: NewestOffsets,
        clean_end: int,
        transactions: ReadTransactions,
    ) -> None:
        self._order = order
        self._fs = fs
        self._group = group
        self._offsets = offsets
        self._clean_end = clean_end
        self._transactions = transactions
        self._path = f"{order.directory}/{offset_name(group[0].base_offset)}"
        self._indexes = _Indexes(
            group[0].base_offset, order.index_interval_bytes, max_timestamp_offset=group[0].base_offset
        )
        self._size = 0
        self._unwritten: list[bytes | memoryview] = []
        self._unwritten_bytes = 0
        self._written_bytes = 0
        self._file: File

    def run(self) -> Replacement | None:
        """None if nothing changes."""
        self._file = self._fs.open(self._path + LOG_SUFFIX + CLEANED_SUFFIX, create=True)
        self._file.truncate(0)
        transactions = self._transactions
        transactions.kept = []
        is_changed = len(self._group) > 1
        last_source = max((each.base_offset for each in self._group if each.size), default=-1)
        for segment in self._group:
            for end, batch, header in _batches(self._order.directory, self._fs, segment):
                is_last = segment.base_offset == last_source and end == segment.size
                stays = self._filtered(batch, header, is_last)
                is_changed = is_changed or stays is not batch
                if stays is not None:
                    self._add(stays)
        if not is_changed:
            self._remove()
            return None
        self._write()
        self._file.sync()
        return self._finish(tuple(transactions.kept))

    def _filtered(self, batch: memoryview, header: BatchHeader, is_last: bool) -> memoryview | None:
        """What stays of a batch: the batch itself, a smaller one, or None."""
        must_stay = is_last or self._is_last_of_producer(header)
        if header.base_offset >= self._clean_end:
            self._pass_over(batch, header)
            return batch
        if header.is_control:
            stays = self._filtered_marker(batch, header)
        elif self._transactions.is_aborted(header):
            stays = None
        else:
            stays = self._filtered_records(batch, header)
        if stays is None and must_stay:
            return batch if header.records_count == 0 else without_records(header)
        return stays

    def _pass_over(self, batch: memoryview, header: BatchHeader) -> None:
        """Keys from here on are cleaned by the next pass."""
        if header.is_control:
            self._transactions.is_marker_needed(batch, header)
        else:
            self._transactions.is_aborted(header)

    def _filtered_marker(self, batch: memoryview, header: BatchHeader) -> memoryview | None:
        if self._transactions.is_marker_needed(batch, header):
            return batch
        if header.records_count == 0:
            return None
        horizon = header.delete_horizon_ms
        if horizon is not None:
            return None if horizon <= self._order.now_ms else batch
        payload = _payload(batch, header)
        records = [record.stored for record in keyed_records(payload, header.records_count)]
        return with_records(header, payload, records, self._new_horizon)

    def _filtered_records(self, batch: memoryview, header: BatchHeader) -> memoryview | None:
        payload = _payload(batch, header)
        horizon = header.delete_horizon_ms
        kept = self._offsets.kept_records(
            payload,
            header.records_count,
            header.base_offset,
            tombstones_stay=horizon is None or self._order.now_ms < horizon,
        )
        if kept.count == 0:
            return None
        needs_horizon = kept.has_tombstones and horizon is None
        if kept.count == header.records_count and not needs_horizon:
            return batch
        return with_records(header, payload, kept.records(), self._new_horizon if needs_horizon else None)

    @property
    def _new_horizon(self) -> int:
        return min(self._order.now_ms + self._order.delete_retention_ms, NEVER)

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        if header.producer_id == NO_PRODUCER_ID:
            return False
        last = self._order.last_batches.get(header.producer_id)
        if last is None:
            return False
        last_offset, epoch = last
        if last_offset == NO_DATA:
            return header.is_control and header.producer_epoch == epoch
        return header.end_offset - 1 == last_offset

    def _add(self, batch: memoryview) -> None:
        self._indexes.add(parse_header(batch), self._size)
        self._size += len(batch)
        self._unwritten.append(batch)
        self._unwritten_bytes += len(batch)
        if self._unwritten_bytes >= _WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        if self._unwritten:
            write_fully(self._file, self._unwritten, self._unwritten_bytes, self._written_bytes)
            self._written_bytes += self._unwritten_bytes
            self._unwritten = []
            self._unwritten_bytes = 0

    def _finish(self, aborted: tuple[AbortedEntry, ...]) -> Replacement:
        base_offset, end_offset = self._group[0].base_offset, self._group[-1].end_offset
        offset_index, time_index = self._indexes.encoded()
        transaction_index = TransactionIndex()
        for entry in aborted:
            transaction_index.append(*entry)
        # All of them, even an empty one: a swap that was interrupted must know which of the files are old.
        for suffix, content in (
            (INDEX_SUFFIX, offset_index),
            (TIME_INDEX_SUFFIX, time_index),
            (TRANSACTION_INDEX_SUFFIX, transaction_index.encode(base_offset, end_offset)),
        ):
            file = self._fs.open(self._path + suffix + CLEANED_SUFFIX, create=True)
            file.truncate(0)
            write_fully(file, [content], len(content), 0)
            file.sync()
        return Replacement(
            base_offset,
            end_offset,
            tuple(segment.base_offset for segment in self._group),
            self._size,
            self._indexes.max_timestamp,
            self._indexes.max_timestamp_offset,
            aborted,
        )

    def _remove(self) -> None:
        for suffix in SEGMENT_SUFFIXES:
            with suppress(FileNotFoundError):
                self._fs.remove_file(self._path + suffix + CLEANED_SUFFIX)


def _batches(directory: str, fs: FileSystem, segment: SourceSegment) -> Iterator[tuple[int, memoryview, BatchHeader]]:
    """End position, bytes and header of each batch, verified."""
    path = f"{directory}/{offset_name(segment.base_offset)}{LOG_SUFFIX}"
    file = fs.open(path)
    window = memoryview(b"")
    window_start = position = 0
    while position < segment.size:
        at = position - window_start
        left = segment.size - position
        needed = HEADER_BYTES
        if len(window) - at >= HEADER_BYTES:
            header = parse_header(window, at)
            flaw = header_flaw(header, left, contiguous=False)
            if flaw is not None:
                raise BatchAnomaly(position, f"{path}: {flaw}")
            needed = header.size
        if len(window) - at < needed:
            window = memoryview(file.pread(min(max(_READ_BYTES, needed), left), position))
            window_start = position
            if len(window) < min(needed, left) or left < HEADER_BYTES:
                raise BatchAnomaly(position, f"{path}: the file ends inside a batch")
            continue
        batch = window[at : at + header.size]
        if not crc_holds(batch, header):
            raise BatchAnomaly(position, f"{path}: the CRC32C does not match")
        position += header.size
        yield position, batch, header


def _payload(batch: memoryview, header: BatchHeader) -> bytes | memoryview:
    return decompress(header.compression, batch[HEADER_BYTES:], limits.DECOMPRESSED_BATCH_BYTES_MAX)

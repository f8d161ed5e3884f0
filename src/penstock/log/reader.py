"""Reads: finds the bytes of a log from an offset on.

Owns: locating a batch through the indexes, verifying bytes from disk before their first use, and ending a slice before
damage.
Must never know: who reads, or the byte limit of a whole fetch.

Invariants: a slice begins with a complete, verified batch and stays inside one segment, outside of damaged regions. The
cost of a read does not grow with the log: one bisection and a walk of about index.interval.bytes.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import Final

from penstock.log.batches import BatchAnomaly, checked_batches, find_batch
from penstock.log.filesystem import File
from penstock.log.log_state import LogState
from penstock.log.segment import Segment
from penstock.protocol.error_codes import BrokerError, ErrorCode
from penstock.protocol.record_batch import BatchHeader

_WALK_BYTES_MAX: Final = 1 << 20  # a larger gap means lost index entries, or a huge batch


@dataclass(slots=True)
class LogSlice:
    """Bytes of one segment file that begin with a complete batch; the last batch may be truncated.

    A slice keeps its file open, whatever happens to the segment.
    """

    file: File
    position: int
    size: int
    first_batch: BatchHeader | None  # None for an empty slice

    def __len__(self) -> int:
        return self.size

    def read(self) -> bytes:
        content = self.file.pread(self.size, self.position) if self.size else b""
        if len(content) != self.size:
            raise OSError(
                errno.EIO, f"only {len(content)} of {self.size} bytes could be read at position {self.position}"
            )
        return content


class LogReader:
    __slots__ = ("_state",)

    def __init__(self, state: LogState) -> None:
        self._state = state

    def read(self, offset: int, max_bytes: int, end_offset: int, at_least_one_batch: bool = True) -> LogSlice:
        """The batches from the one that contains `offset`, up to `end_offset` or `max_bytes`."""
        state = self._state
        if not state.log_start_offset <= offset <= state.log_end_offset:
            raise BrokerError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                f"offset {offset} is not in [{state.log_start_offset}, {state.log_end_offset}]",
            )
        end_offset = min(end_offset, state.log_end_offset)
        if offset < end_offset:
            for number in range(state.segment_number(offset), len(state.segments)):
                if state.segments[number].base_offset >= end_offset:
                    break
                try:
                    found = self._slice(number, offset, max_bytes, end_offset, at_least_one_batch)
                except BatchAnomaly:
                    state.examine_segment(number)
                    found = self._slice_examined(number, offset, max_bytes, end_offset, at_least_one_batch)
                if found is not None:
                    return found
        return LogSlice(state.active.file, state.active.size, 0, None)

    def locate(self, offset: int) -> tuple[int, int, BatchHeader] | None:
        """Segment number, position and header of the batch that contains `offset`, or of the first one after it."""
        state = self._state
        for number in range(state.segment_number(offset), len(state.segments)):
            try:
                found = self._locate(number, offset)
            except BatchAnomaly:
                state.examine_segment(number)
                found = self._locate_examined(number, offset)
            if found is not None:
                return number, *found
        return None

    def end_before(self, number: int, offset: int) -> tuple[int, int]:
        """Position and offset at which to truncate the segment to remove `offset` and everything after it."""
        segment = self._state.segments[number]
        try:
            found = self.locate(offset)
        except BrokerError:
            for region in segment.damage:
                if region.first_offset <= offset < region.next_offset:
                    return region.start, region.first_offset
            raise
        if found is None or found[0] != number:
            return segment.size, offset
        return found[1], min(offset, found[2].base_offset)

    def slice_of(self, located: tuple[int, int, BatchHeader]) -> LogSlice:
        """The single batch that `locate` found."""
        number, position, header = located
        return LogSlice(self._state.segments[number].file, position, header.size, header)

    def upper_bound_offset(self, fetched: LogSlice) -> int:
        """An offset above all records of the slice, close to the last one."""
        if fetched.first_batch is None:
            return self._state.log_end_offset
        number = self._state.segment_number(fetched.first_batch.base_offset)
        segment = self._state.segments[number]
        try:
            offset_index = segment.indexes[0]
        except BatchAnomaly:
            return self._state.end_offset_of(number)
        entry = offset_index.first_at_or_after(fetched.position + fetched.size)
        if entry == len(offset_index):
            return self._state.end_offset_of(number)
        return segment.base_offset + offset_index.offsets[entry]

    def _slice_examined(
        self, number: int, offset: int, max_bytes: int, end_offset: int, at_least_one_batch: bool
    ) -> LogSlice | None:
        try:
            return self._slice(number, offset, max_bytes, end_offset, at_least_one_batch)
        except BatchAnomaly as anomaly:  # The file has changed since the examination.
            raise _corrupt(self._state.segments[number], anomaly.position, anomaly.reason) from anomaly

    def _locate_examined(self, number: int, offset: int) -> tuple[int, BatchHeader] | None:
        try:
            return self._locate(number, offset)
        except BatchAnomaly as anomaly:
            raise _corrupt(self._state.segments[number], anomaly.position, anomaly.reason) from anomaly

    def _slice(
        self, number: int, offset: int, max_bytes: int, end_offset: int, at_least_one_batch: bool
    ) -> LogSlice | None:
        """None if the segment has nothing from `offset` on; raises BatchAnomaly if it must be examined first."""
        segment = self._state.segments[number]
        found = self._locate(number, offset)
        if found is None:
            return None
        position, header = found
        room = self._end_position(number, position, end_offset) - position
        size = min(max_bytes, room)
        if size < header.size:
            size = header.size if at_least_one_batch and room >= header.size else 0
        if position < segment.unverified_end:
            self._verify(number, position, None, offset, position + size)
        return LogSlice(segment.file, position, size, header)

    def _end_position(self, number: int, position: int, end_offset: int) -> int:
        """The end of a slice from `position`: at `end_offset`, at the next damage, or at the end of the segment."""
        segment = self._state.segments[number]
        limit, limit_offset = segment.size, self._state.end_offset_of(number)
        for region in segment.damage:
            if region.start > position:
                limit, limit_offset = region.start, region.first_offset
                break
        if end_offset >= limit_offset:
            return limit
        found = self._locate(number, end_offset)
        return limit if found is None else found[0]

    def _locate(self, number: int, offset: int) -> tuple[int, BatchHeader] | None:
        """Position and header of the batch in this segment that contains `offset`, or of the first one after it."""
        segment = self._state.segments[number]
        base_offset = segment.base_offset
        offset = max(offset, base_offset)
        position, witness = self._anchor(segment, offset)
        limit = segment.size
        for region in segment.damage:
            if region.first_offset > offset:
                limit = region.start
                break
            if offset < region.next_offset:
                raise _corrupt(segment, region.start, region.reason)
            if region.end > position:
                position, witness = region.end, None
        if position < segment.unverified_end:
            self._verify(number, position, witness, offset, 0)
        found = find_batch(segment.file, position, limit, offset, witness)
        if found is not None and found[0] - position > _WALK_BYTES_MAX and not segment.examined:
            raise BatchAnomaly(found[0], "the index lacks entries")
        return found

    def _anchor(self, segment: Segment, offset: int) -> tuple[int, int | None]:
        """The position of a batch shortly before `offset`, and its last offset if the index has it."""
        if offset >= segment.tail_offset:
            return segment.tail_position, None
        offset_index = segment.indexes[0]
        entry = offset_index.last_at_or_before(offset - segment.base_offset)
        if entry < 0:
            return 0, None
        return offset_index.positions[entry], segment.base_offset + offset_index.offsets[entry]

    def _verify(self, number: int, position: int, witness: int | None, stop_offset: int, stop_position: int) -> None:
        """Verifies batches from `position` until one ends after both stops. Skips verified extents.

        The offset of the first batch is confirmed by the segment's name (at position 0), by its index entry
        (`witness`, its last offset), or by an earlier verification.
        """
        state = self._state
        segment = state.segments[number]
        contiguous = state.config.contiguous_offsets
        end = segment.unverified_end
        expected_offset = segment.base_offset if position == 0 else None
        while position < end and (
            expected_offset is None or expected_offset <= stop_offset or position < stop_position
        ):
            covered = segment.verified.covering(position)
            if covered is not None:
                position, expected_offset = covered
                continue
            start = position
            try:
                for at, header in checked_batches(segment.file, start, end, expected_offset, contiguous):
                    if witness is not None and header.end_offset - 1 != witness:
                        raise BatchAnomaly(at, "the index has another offset")
                    if header.partition_leader_epoch != state.epochs.epoch_at(header.base_offset):
                        raise BatchAnomaly(at, "the leader epoch is wrong")
                    witness = None
                    position, expected_offset = at + header.size, header.end_offset
                    if expected_offset > stop_offset and position >= stop_position:
                        break
            finally:
                if expected_offset is not None and position > start:
                    segment.verified.add(start, position, expected_offset)
        if position >= end and expected_offset is not None:
            missing = segment.unverified_end_offset - expected_offset
            if missing < 0 or (missing and contiguous):
                raise BatchAnomaly(
                    position, f"the next offset is {expected_offset} instead of {segment.unverified_end_offset}"
                )
            if segment.verified.covering(0) == (end, expected_offset):
                segment.unverified_end = 0


def _corrupt(segment: Segment, position: int, reason: str) -> BrokerError:
    return BrokerError(ErrorCode.CORRUPT_MESSAGE, f"{segment.log_path} is damaged at position {position}: {reason}")

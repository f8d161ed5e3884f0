"""Finds batches by timestamp, through the time indexes.

Owns: the first batch that reaches a timestamp, and the newest batch. Records are opaque to the log: the caller searches
inside the batch.

Invariant: an index entry is used only after the batch that it refers to has confirmed it.
"""

from __future__ import annotations

from penstock.log.batches import BatchAnomaly
from penstock.log.log_state import LogState
from penstock.log.reader import LogReader
from penstock.log.segment import Segment
from penstock.protocol.error_codes import BrokerError
from penstock.protocol.record_batch import BatchHeader

Located = tuple[int, int, BatchHeader]


class TimeLookup:
    __slots__ = ("_reader", "_state")

    def __init__(self, state: LogState, reader: LogReader) -> None:
        self._state = state
        self._reader = reader

    def first_reaching(self, timestamp: int) -> Located | None:
        """The first batch from the log start offset on whose max timestamp is at or after `timestamp`."""
        for number in range(len(self._state.segments)):
            if self.max_timestamp_of(number) < timestamp:
                continue
            found = self._first_in_segment(number, timestamp)
            if found is not None:
                return found
        return None

    def newest(self) -> Located | None:
        """The batch with the largest max timestamp; the first one if there are several."""
        timestamps = [self.max_timestamp_of(number) for number in range(len(self._state.segments))]
        newest = max(timestamps)
        if newest < 0:
            return None
        offset = self._state.segments[timestamps.index(newest)].max_timestamp_offset
        return self._reader.locate(max(offset, self._state.log_start_offset))

    def max_timestamp_of(self, number: int) -> int:
        """The newest timestamp of a segment; -1 if it has none."""
        segment = self._state.segments[number]
        if not segment.max_timestamp_known:
            try:
                segment.load_max_timestamp()
                confirmed = self._confirms(segment, segment.max_timestamp_offset, segment.max_timestamp)
            except BatchAnomaly:
                confirmed = False
            if not confirmed:
                self._state.examine_segment(number)
        return segment.max_timestamp

    def _first_in_segment(self, number: int, timestamp: int) -> Located | None:
        segment = self._state.segments[number]
        try:
            offset = self._search_from(segment, timestamp)
        except BatchAnomaly:
            self._state.examine_segment(number)
            offset = self._search_from(segment, timestamp)
        end_offset = self._state.end_offset_of(number)
        offset = max(offset, self._state.log_start_offset)
        while offset < end_offset:
            try:
                found = self._reader.locate(offset)
            except BrokerError:
                offset = self._after_damage(segment, offset)
                continue
            if found is None or found[2].max_timestamp >= timestamp:
                return found
            offset = found[2].end_offset
        return None

    def _search_from(self, segment: Segment, timestamp: int) -> int:
        """An offset at most two index intervals before the wanted batch; all batches before it are older."""
        offset_index, time_index = segment.indexes
        before = time_index.last_before(timestamp)
        offset = segment.base_offset
        if before >= 0:
            last_older = segment.base_offset + time_index.offsets[before]
            if not self._confirms(segment, last_older, time_index.timestamps[before]):
                raise BatchAnomaly(0, "the time index contradicts the log")
            offset = last_older + 1
        if before + 1 < len(time_index):
            # Both indexes get their entries at the same batches. The entry after `before` exists because a batch after
            # the previous offset index entry was newer, so all batches up to that entry are older than `timestamp`.
            reached = time_index.offsets[before + 1]
            if not self._confirms(segment, segment.base_offset + reached, time_index.timestamps[before + 1]):
                raise BatchAnomaly(0, "the time index contradicts the log")
            entry = offset_index.last_at_or_before(reached) - 1
            if entry >= 0:
                offset = max(offset, segment.base_offset + offset_index.offsets[entry] + 1)
        return offset

    def _confirms(self, segment: Segment, last_offset: int, timestamp: int) -> bool:
        """Whether a batch ends with this offset and has this max timestamp; a damaged one confirms nothing.

        The indexes of an examined segment were built from its batches and need no confirmation.
        """
        if segment.examined or (segment.size == 0 and timestamp < 0):
            return True
        try:
            found = self._reader.locate(last_offset)
        except BrokerError:
            return False
        return found is not None and found[2].end_offset == last_offset + 1 and found[2].max_timestamp == timestamp

    def _after_damage(self, segment: Segment, offset: int) -> int:
        return max(
            (r.next_offset for r in segment.damage if r.first_offset <= offset < r.next_offset), default=offset + 1
        )

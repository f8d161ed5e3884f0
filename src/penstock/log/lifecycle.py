"""The old end of a log: deletes segments by retention, and replaces segments by compacted ones.

Owns: the offset up to which the log is compacted, a swap that is under way, and the files that wait for their removal.
Plans (`retention.py`, `cleaning/plan.py`) say what is due; a cleaner (`cleaning/cleaner.py`) may run anywhere.
Must never know: clocks, threads, processes, requests.

Invariants: nothing here waits for the disk or removes a file, unless it says so: the caller runs what is returned where
it may block. While a swap is under way retention deletes nothing; other changes of segments complete the swap first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from penstock.log.appender import LogAppender
from penstock.log.batches import BatchAnomaly, headers
from penstock.log.cleaning.cleaner import HASH_SEED_BYTES, NO_DATA, CleaningOrder, CleaningResult, Replacement, discard
from penstock.log.cleaning.plan import Cleanable, SegmentFacts, SourceSegment, cleanable_part, first_dirty_offset
from penstock.log.cleaning.swap import Sync, swap_segments
from penstock.log.cleaning.transactions import AbortedEntry
from penstock.log.flushing import FlushTicket
from penstock.log.log_state import LogState
from penstock.log.retention import segments_to_delete
from penstock.log.time_lookup import TimeLookup

_RETIRED_SEGMENTS_MAX: Final = 100  # in one call, which renames four files each


class LogLifecycle:
    __slots__ = (
        "_appender",
        "_pending",
        "_state",
        "_swap",
        "_swap_end",
        "_time_lookup",
        "cleaned_offset",
        "flushing_indexes",
        "uncleanable",
    )

    def __init__(self, state: LogState, appender: LogAppender, time_lookup: TimeLookup, cleaned_offset: int) -> None:
        self._state = state
        self._appender = appender
        self._time_lookup = time_lookup
        self._swap: Iterator[Sync] | None = None
        self._pending: Sync | None = None
        self._swap_end = 0
        self.cleaned_offset = cleaned_offset  # the first dirty offset; 0 if the log was never compacted
        self.flushing_indexes: FlushTicket | None = None  # a ticket with transaction indexes, until it is completed
        self.uncleanable: str | None = None  # why this log is not cleaned until the next start

    # Retention

    def delete_old_segments(self, high_watermark: int, now_ms: int) -> int:
        """Deletes the segments that are due, and returns their number. Rolls the active segment if it is due too."""
        state, appender = self._state, self._appender
        if self._swap is not None:
            return 0
        count = segments_to_delete(
            self._facts(),
            state.config,
            log_start_offset=state.log_start_offset,
            high_watermark=high_watermark,
            now_ms=now_ms,
        )
        count = min(count, _RETIRED_SEGMENTS_MAX)
        if count == len(state.segments):
            if appender.has_staged:
                count -= 1
            else:
                appender.roll()
        if count:
            self.delete_segments(count, now_ms + state.config.file_delete_delay_ms)
        return count

    def delete_segments(self, count: int, due_ms: int) -> None:
        """Deletes the first segments. Their files are removed when they are due: see `take_retired`."""
        state = self._state
        state.retire_segments(0, count, due_ms)
        base_offset = state.segments[0].base_offset
        state.log_start_offset = max(state.log_start_offset, base_offset)
        # Epochs are kept for whole segments: the batch with the log start offset may begin before it.
        if state.epochs.truncate_start(base_offset):
            self._appender.epochs_changed = True
        state.transaction_index.truncate_start(base_offset)

    @property
    def has_retired(self) -> bool:
        return bool(self._state.retired)

    def take_retired(self, now_ms: int) -> list[str]:
        """The files whose removal is due. They are the caller's now, who removes them in any thread."""
        retired = self._state.retired
        due = [path for path, due_ms in retired.items() if due_ms <= now_ms]
        for path in due:
            del retired[path]
        return due

    # Compaction

    def cleanable(self, *, last_stable_offset: int, recovery_point: int, now_ms: int) -> Cleanable | None:
        """The part of the log that may be compacted now; None if there is none, or the log is not compacted."""
        state = self._state
        if not state.config.compacts or self.uncleanable or self._swap is not None or len(state.segments) < 2:
            return None
        return cleanable_part(
            self._facts(),
            state.config,
            dirty_from=first_dirty_offset(self.cleaned_offset, state.log_start_offset, state.log_end_offset),
            decided_end=min(last_stable_offset, recovery_point),
            now_ms=now_ms,
        )

    def cleaning_order(
        self, cleanable: Cleanable, *, keys_max: int, now_ms: int, hash_seed: bytes = bytes(HASH_SEED_BYTES)
    ) -> CleaningOrder:
        state = self._state
        end_offset = cleanable.end_offset
        sources = tuple(
            SourceSegment(facts.base_offset, facts.end_offset, facts.size)
            for facts in self._facts()
            if facts.base_offset < end_offset
        )
        entries = self._appender.producers.entries
        return CleaningOrder(
            state.directory,
            sources,
            cleanable.first_dirty_offset,
            now_ms,
            state.config.delete_retention_ms,
            state.config.segment_bytes,
            state.config.index_interval_bytes,
            tuple(AbortedEntry(*each) for each in state.transaction_index.entries if each[1] < end_offset),
            {
                producer_id: (entry.batches[-1].last_offset if entry.batches else NO_DATA, entry.epoch)
                for producer_id, entry in entries.items()
            },
            keys_max,
            hash_seed,
        )

    def begin_swap(self, result: CleaningResult, now_ms: int) -> bool:
        """Prepares to put cleaned segments into the log, with `advance_swap`. False if the log has changed too much."""
        state = self._state
        assert self._swap is None, "a swap is under way"
        assert self.flushing_indexes is None, "a flush may be writing transaction indexes of the replaced segments"
        replacements = [each for each in result.replacements if each.end_offset > state.segments[0].base_offset]
        if not all(self._matches(replacement) for replacement in replacements):
            self.discard_cleaned()
            return False
        # Of segments that were deleted meanwhile, and what an earlier cleaning of this path may have left.
        discard(state.directory, state.fs, except_offsets=[each.base_offset for each in replacements])
        self._swap = swap_segments(state, replacements, now_ms + state.config.file_delete_delay_ms)
        self._swap_end = result.clean_end_offset
        if not replacements:
            self._swap = iter(())
        return True

    def advance_swap(self) -> Sync | None:
        """Takes the next step. Run the returned call, which may block, before the next one; None: the swap is done."""
        if self._swap is None:
            return None
        self._pending = next(self._swap, None)
        if self._pending is None:
            self._swap = None
            self.cleaned_offset = self._swap_end
        return self._pending

    def complete_swap(self) -> None:
        """Takes all steps that are left, blocking."""
        if self._swap is not None and self._pending is not None:
            self._pending()  # perhaps it runs in another thread at this moment; then it runs twice
        while (sync := self.advance_swap()) is not None:
            sync()

    def abandon_swap(self, reason: str) -> None:
        """A step has failed. The log goes on with the segments that it has; the next start completes the swap."""
        self._swap = self._pending = None
        self.uncleanable = reason

    @property
    def is_swapping(self) -> bool:
        return self._swap is not None

    def discard_cleaned(self) -> None:
        """Removes the files of a cleaning that is not used; may run in any thread."""
        discard(self._state.directory, self._state.fs)

    def truncated(self, end_offset: int) -> None:
        self.cleaned_offset = min(self.cleaned_offset, end_offset)

    def _matches(self, replacement: Replacement) -> bool:
        state = self._state
        number = state.segment_number(replacement.base_offset)
        last = number + len(replacement.replaced)
        found = tuple(segment.base_offset for segment in state.segments[number:last])
        return found == replacement.replaced and state.upper_offset(last - 1) == replacement.end_offset

    def _facts(self) -> list[SegmentFacts]:
        state = self._state
        return [
            SegmentFacts(
                segment.base_offset,
                state.end_offset_of(number),
                segment.size,
                lambda number=number: self._newest_ms(number),  # type: ignore[misc]
                lambda number=number: self._oldest_ms(number),  # type: ignore[misc]
            )
            for number, segment in enumerate(state.segments)
        ]

    def _newest_ms(self, number: int) -> int:
        """As in Kafka, the time of the last write if the batches have no timestamps."""
        timestamp = self._time_lookup.max_timestamp_of(number)
        return timestamp if timestamp >= 0 else self._state.fs.modified_ms(self._state.segments[number].log_path)

    def _oldest_ms(self, number: int) -> int:
        segment = self._state.segments[number]
        try:
            for _, header in headers(segment.file, 0, segment.size, contiguous=False):
                return header.max_timestamp
        except BatchAnomaly:
            pass
        return -1

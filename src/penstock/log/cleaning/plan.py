"""Which part of a log is compacted next, and whether that is worth the work: Kafka's rules, as pure functions.

Owns: the first dirty and the first uncleanable offset, the dirty ratio, max.compaction.lag.ms, and the groups of
segments that become one. A log is clean up to its first dirty offset: below it, each key occurs once.
Must never know: files, batches, threads.

Invariant: the active segment, undecided transactions and bytes that are not flushed are never cleaned. Whatever is
cleaned is on disk and decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.log.config import LogConfig
from penstock.log.segment import RELATIVE_OFFSET_MAX


class SegmentFacts(NamedTuple):
    """A segment as plans see it. Timestamps are functions, because finding one may read a file."""

    base_offset: int
    end_offset: int
    size: int
    newest_ms: Callable[[], int]
    oldest_ms: Callable[[], int]


class SourceSegment(NamedTuple):
    """A segment that the cleaner reads."""

    base_offset: int
    end_offset: int
    size: int


@dataclass(frozen=True, slots=True)
class Cleanable:
    """The dirty part of a log that may be cleaned now."""

    first_dirty_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    """Whether records are older than max.compaction.lag.ms."""

    @property
    def dirty_ratio(self) -> float:
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes)


def first_dirty_offset(cleaned_offset: int, log_start_offset: int, log_end_offset: int) -> int:
    """Where the dirty part begins. A checkpoint outside of the log is not used: the log was truncated or restored."""
    return cleaned_offset if log_start_offset <= cleaned_offset <= log_end_offset else log_start_offset


def cleanable_part(
    segments: Sequence[SegmentFacts], config: LogConfig, *, dirty_from: int, decided_end: int, now_ms: int
) -> Cleanable | None:
    """None if there is nothing to clean. `decided_end` is the last stable offset, or a lower end of flushed bytes."""
    clean_bytes = dirty_bytes = 0
    end_offset = dirty_from
    is_overdue = False
    for segment in segments[:-1]:
        if segment.end_offset <= dirty_from:
            clean_bytes += segment.size
            continue
        if segment.end_offset > decided_end:
            break
        if config.min_compaction_lag_ms > 0 and segment.newest_ms() > now_ms - config.min_compaction_lag_ms:
            break
        if not is_overdue and config.max_compaction_lag_ms < now_ms:
            is_overdue = 0 < segment.oldest_ms() < now_ms - config.max_compaction_lag_ms
        dirty_bytes += segment.size
        end_offset = segment.end_offset
    if dirty_bytes == 0:
        return None
    return Cleanable(dirty_from, end_offset, clean_bytes, dirty_bytes, is_overdue)


def is_due(cleanable: Cleanable, config: LogConfig) -> bool:
    return cleanable.is_overdue or cleanable.dirty_ratio > config.min_cleanable_dirty_ratio


def grouped(segments: Iterable[SourceSegment], segment_bytes: int) -> list[list[SourceSegment]]:
    """Consecutive segments that become one: together they are not larger than a segment may be."""
    groups: list[list[SourceSegment]] = []
    size = 0
    for segment in segments:
        fits = (
            groups
            and size + segment.size <= segment_bytes
            and segment.end_offset - 1 - groups[-1][0].base_offset <= RELATIVE_OFFSET_MAX
        )
        if fits:
            groups[-1].append(segment)
            size += segment.size
        else:
            groups.append([segment])
            size = segment.size
    return groups

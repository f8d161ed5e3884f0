"""Which segments of a log are deleted: by time, by size, and behind the log start offset. Kafka's rules, pure.

Must never know: files. The caller finds timestamps, and deletes.

Invariants: segments are deleted from the start of the log, so that no hole appears. No segment is deleted that has a
record at or above the high watermark.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.log.cleaning.plan import SegmentFacts
from penstock.log.config import LogConfig


def segments_to_delete(
    segments: Sequence[SegmentFacts], config: LogConfig, *, log_start_offset: int, high_watermark: int, now_ms: int
) -> int:
    """How many segments, from the first one on, are due. May include the active segment, which is then rolled first."""
    limits_size = config.deletes and config.retention_bytes >= 0
    limits_time = config.deletes and config.retention_ms >= 0
    excess = sum(segment.size for segment in segments) - config.retention_bytes if limits_size else 0
    last = len(segments) - 1
    for number, segment in enumerate(segments):
        if segment.end_offset > high_watermark or (number == last and segment.size == 0):
            return number
        excess -= segment.size
        is_due = (
            (number < last and segment.end_offset <= log_start_offset)
            or (limits_size and excess >= 0)
            or (limits_time and now_ms - segment.newest_ms() > config.retention_ms)
        )
        if not is_due:
            return number
    return len(segments)

"""The event time of a source, as its keys say it: watermark and deduplication, put on its rows.

The job and the check of `penstock validate` both use it, so that what was checked is what runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.pipeline.sources.source import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def with_event_time(frame: DataFrame, source: Source) -> DataFrame:
    time = source.event_time
    if time.watermark is not None and time.column is not None:
        frame = frame.withWatermark(time.column, time.watermark)
    if time.dedupe:
        keys = list(time.dedupe)
        frame = frame.dropDuplicatesWithinWatermark(keys) if time.watermark else frame.dropDuplicates(keys)
    return frame

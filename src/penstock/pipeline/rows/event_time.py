"""The event time of a source, as its keys say it: watermark and deduplication, put on its rows.

The job and the check of `penstock validate` both use it, so that what was checked is what runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.pipeline.declaration.source_spec import AnySource, TableSource

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def with_event_time(frame: DataFrame, source: AnySource) -> DataFrame:
    """The source's watermark and deduplication, as its keys say."""
    if isinstance(source, TableSource):
        return frame
    if source.watermark is not None and source.timestamp is not None:
        frame = frame.withWatermark(source.timestamp, source.watermark)
    if source.dedupe is not None:
        keys = list(source.dedupe)
        frame = frame.dropDuplicatesWithinWatermark(keys) if source.watermark else frame.dropDuplicates(keys)
    return frame

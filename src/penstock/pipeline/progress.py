"""What a query reports of itself, in our terms: rows, lag, batch time, dead letters.

Owns what a batch's progress means and the sums over a run. It must not know Spark: `spark/internals.py` reads reports.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.core.ids import TopicPartition
from penstock.pipeline.rows.bad_rows import DROPPED_METRIC_PREFIX
from penstock.pipeline.rows.dead_letters import METRIC as DEAD_LETTER_METRIC
from penstock.pipeline.spark.internals import ReportedBatch, read_progress
from penstock.pipeline.topics.errors import TopicSourceError
from penstock.pipeline.topics.offsets import Offsets, by_topic, decode, lag

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One trigger of a query, which may have had nothing to do."""

    batch_id: int
    timestamp: str
    rows: int
    duration_ms: int
    ends: Offsets
    lag: Mapping[TopicPartition, int]
    dead_letters: int
    dropped: int
    watermark: str | None
    rows_written: int | None = None

    @classmethod
    def of(cls, reported: ReportedBatch, passes: int = 1) -> BatchProgress:
        """`passes` is how often a row is read: a query with dead letters may read its sources twice."""
        ends: dict[TopicPartition, int] = {}
        lags: dict[TopicPartition, int] = {}
        for end, latest in reported.offsets:
            source_ends = _offsets(end)
            ends |= source_ends
            lags |= lag(source_ends, _offsets(latest))
        metrics = reported.metrics
        return cls(
            batch_id=reported.batch_id,
            timestamp=reported.timestamp,
            rows=reported.input_rows // passes,
            duration_ms=reported.duration_ms,
            ends=ends,
            lag=lags,
            dead_letters=_metric(metrics, DEAD_LETTER_METRIC),
            dropped=sum(_metric(metrics, name) for name in metrics if name.startswith(DROPPED_METRIC_PREFIX)),
            watermark=reported.watermark,
            rows_written=reported.output_rows,
        )


def lag_of_query(query: StreamingQuery) -> dict[TopicPartition, int]:
    """How many offsets a query is behind in each partition of its topics; empty before its first micro-batch.

    It counts offsets, as Spark's own Kafka source does: control records and records that compaction removed count.
    """
    progress = query.lastProgress
    return {} if progress is None else dict(BatchProgress.of(read_progress(progress.json)).lag)


def _offsets(stored: Any) -> dict[TopicPartition, int]:
    """Empty for sources that are not topics."""
    if isinstance(stored, str):
        try:
            stored = json.loads(stored)
        except ValueError:
            return {}
    if not isinstance(stored, dict):
        return {}
    try:
        return dict(decode(stored).ends)
    except TopicSourceError:
        return {}


def _metric(metrics: Mapping[str, Any], name: str) -> int:
    found = metrics.get(name)
    return int(found.get("rows") or 0) if isinstance(found, Mapping) else 0


@dataclass(slots=True)
class Tally:
    """The sums over a run, restarts included. A batch that is replayed counts once."""

    rows: int = 0
    dead_letters: int = 0
    dropped: int = 0
    batches: int = 0
    last: BatchProgress | None = None
    last_batch_id: int = -1

    def add(self, batch: BatchProgress) -> bool:
        """Whether it is news: a finished batch that was not seen before."""
        self.last = batch
        if batch.batch_id <= self.last_batch_id:
            return False
        self.last_batch_id = batch.batch_id
        self.rows += batch.rows
        self.dead_letters += batch.dead_letters
        self.dropped += batch.dropped
        self.batches += 1
        return True

    def event(self) -> dict[str, Any]:
        batch = self.last
        assert batch is not None
        return {
            "event": "progress",
            "batch": batch.batch_id,
            "rows": batch.rows,
            "rows_written": batch.rows_written,
            "rows_per_second": round(batch.rows * 1000 / batch.duration_ms, 1) if batch.duration_ms else 0.0,
            "batch_ms": batch.duration_ms,
            "lag": sum(batch.lag.values()),
            "lag_by_partition": by_topic(batch.lag),
            "offsets": by_topic(batch.ends),
            "dead_letters": batch.dead_letters,
            "dropped": batch.dropped,
            "watermark": batch.watermark,
            "total": self.totals(),
        }

    def totals(self) -> dict[str, int]:
        return {
            "rows": self.rows,
            "batches": self.batches,
            "dead_letters": self.dead_letters,
            "dropped": self.dropped,
        }

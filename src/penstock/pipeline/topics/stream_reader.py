"""A topic as an unbounded DataFrame: `spark.readStream.format("penstock")`.

Owns what Spark asks a streaming source, and when to wait. What a batch holds is decided in `stream_progress.py`.

Spark keeps one instance in a Python process beside the driver for as long as the query runs; copies of it, with nothing
but the options, go to the tasks. It asks for the latest offset as often as it can, so this waits there for records, for
a bounded time: the query costs next to nothing while nothing comes, and starts at once when something does.

Invariant: the wait never holds up others. Before the first batch there is none, as the offset log would not yet know
where the query began; and none after Spark ran a batch for which this source had nothing, as another one then has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from penstock.pipeline.topics.batch_sizing import BatchSizing
from penstock.pipeline.topics.data_loss import DataLossPolicy
from penstock.pipeline.topics.offsets import Offsets, StreamOffset, decode, encode
from penstock.pipeline.topics.options import SourceOptions
from penstock.pipeline.topics.planning import OffsetRange, divide, tasks_of
from penstock.pipeline.topics.positions import AtOffsets
from penstock.pipeline.topics.range_reader import read_ranges
from penstock.pipeline.topics.resolution import (
    Snapshot,
    TopicCluster,
    believable_snapshot,
    require_all,
    resolve,
    selected,
    snapshot,
)
from penstock.pipeline.topics.stream_progress import Available, available, batch_ranges, unchecked_ranges
from penstock.pipeline.topics.wire_cluster import WireCluster

if TYPE_CHECKING:
    import pyarrow as pa

# How often it is looked whether enough records have come, where some have but minOffsetsPerTrigger asks for more.
_ENOUGH_CHECK_S: Final = 0.02
_CHECK_MAX_AGE_S: Final = 1.0
# A batch of no more rows than this is read by one task, whatever number of partitions they are in.
_TOGETHER_ROWS: Final = 16 * 1024


class TopicStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(
        self,
        options: SourceOptions,
        columns: Sequence[str],
        connect: Callable[[SourceOptions], TopicCluster] = WireCluster,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._connect = connect
        self._clock = clock
        self._forget()

    def _forget(self) -> None:
        self._open_cluster: TopicCluster | None = None
        self._loss = DataLossPolicy(self._options.fail_on_data_loss)
        self._initial: dict[str, Any] | None = None
        self._first_batch_is_due = False
        self._until_now: Snapshot | None = None
        self._topic_ids: dict[str, bytes] = {}
        self._latest: Offsets = {}
        self._last_trigger_s = float("-inf")
        self._had_nothing = False
        self._others_have_data = False
        self._decided: dict[str, Any] | None = None
        self._planned: dict[str, Any] | None = None
        self._checked_s = float("-inf")
        target_ms = self._options.target_batch_ms
        self._sizing = None if target_ms is None else BatchSizing(target_ms / 1000)

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_columns": self._columns, "_connect": self._connect, "_clock": self._clock}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    @property
    def _cluster(self) -> TopicCluster:
        if self._open_cluster is None:
            self._open_cluster = self._connect(self._options)
        return self._open_cluster

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's name, as the others)
        self._until_now = snapshot(self._cluster, self._options.selection)

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Spark asks twice for the first batch. After a crash it asks again, and the answer is then of no account:
        the end of the first batch, in the offset log, says where it began."""
        if self._initial is None:
            topics = self._cluster.topics(self._options.selection)
            require_all(self._options.selection, topics)
            self._initial = encode(StreamOffset(self._starting_offsets(selected(self._options.selection, topics))))
            self._first_batch_is_due = True
        return self._initial

    def _starting_offsets(self, partitions: frozenset[Any]) -> Offsets:
        options, now = self._options, self._until_now
        if now is None:
            return resolve(self._cluster, partitions, options.starting, options, is_start=True)
        # Records that came since the snapshot are not part of this run, wherever it begins.
        offsets = resolve(self._cluster, now.latest.keys(), options.starting, options, is_start=True)
        if isinstance(options.starting, AtOffsets):
            return offsets
        return {partition: min(offset, now.latest[partition]) for partition, offset in offsets.items()}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        if self._sizing is not None:
            return ReadMaxRows(self._sizing.rows)  # Spark asks once; `_row_limit` knows the current number
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        position = decode(start).ends
        is_first_batch, self._first_batch_is_due = self._first_batch_is_due and start == self._initial, False
        deadline = self._clock() + self._patience_s(is_first_batch)
        if self._sizing is not None:
            self._sizing.asked_for_next(self._clock())
        while True:
            found = self._look(position)
            news = available(self._cluster, position, found, self._topic_ids, self._loss, is_first_batch=is_first_batch)
            if not news.is_nothing and self._is_enough(news, limit):
                self._had_nothing = False
                self._topic_ids.update(found.topic_ids)
                self._last_trigger_s = self._clock()
                if self._sizing is not None:
                    self._sizing.planned(news.rows, self._clock())
                self._decided = encode(news.limited(self._row_limit(limit)))
                return self._decided
            remaining_s = deadline - self._clock()
            if remaining_s <= 0:
                self._had_nothing = True
                return start
            if news.rows:
                time.sleep(min(remaining_s, _ENOUGH_CHECK_S))
            else:
                self._cluster.wait_for_records(found.latest, int(remaining_s * 1000) + 1)

    def _patience_s(self, is_first_batch: bool) -> float:
        others_have_data, self._others_have_data = self._others_have_data, False
        if is_first_batch or others_have_data or self._until_now is not None:
            return 0
        return self._options.idle_wait_ms / 1000

    def _look(self, position: Offsets) -> Snapshot:
        found = self._until_now
        if found is None:
            found = believable_snapshot(self._cluster, self._options, position)
        elif any(found.latest.get(partition, -1) < offset for partition, offset in position.items()):
            found = self._until_now = believable_snapshot(self._cluster, self._options, position)
        self._latest = found.latest
        for topic, topic_id in found.topic_ids.items():
            self._topic_ids.setdefault(topic, topic_id)
        return found

    def _is_enough(self, news: Available, limit: ReadLimit) -> bool:
        """As in Spark's own source, neither the first batch of a run nor a run over all available records is held back:
        the latter would never end."""
        minimum = self._options.min_offsets_per_trigger
        if minimum is None or isinstance(limit, ReadAllAvailable) or self._until_now is not None:
            return True
        waited_ms = (self._clock() - self._last_trigger_s) * 1000
        return news.rows >= minimum or waited_ms >= self._options.max_trigger_delay_ms

    def _row_limit(self, limit: ReadLimit) -> int | None:
        if isinstance(limit, ReadMaxRows):
            is_sized = self._sizing is not None and self._options.max_offsets_per_trigger is None
            return self._sizing.rows if is_sized and self._sizing is not None else limit.max_rows
        return None if isinstance(limit, ReadAllAvailable) else self._options.max_offsets_per_trigger

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        return encode(StreamOffset(self._latest)) if self._latest else None

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        if start == end:
            return []
        parts = divide(
            self._ranges(start, end),
            min_partitions=self._options.min_partitions,
            max_records_per_partition=self._options.max_records_per_partition,
        )
        # Who sets minPartitions wants tasks, however little there is to read.
        together_rows = min(_TOGETHER_ROWS, self._options.max_records_per_partition or _TOGETHER_ROWS)
        if self._options.min_partitions is not None:
            together_rows = 0
        return [InputPartition(task) for task in tasks_of(parts, together_rows=together_rows)]

    def _ranges(self, start: dict[str, Any], end: dict[str, Any]) -> list[OffsetRange]:
        """Where batches follow each other quickly, not each of them asks whether its records are still there.

        One that does not was decided on just now, behind one that was; its tasks find out what is gone nevertheless.
        """
        goes_on, self._planned = start == self._planned and end == self._decided, end
        if goes_on and self._clock() - self._checked_s < _CHECK_MAX_AGE_S:
            return unchecked_ranges(decode(start), decode(end))
        self._checked_s = self._clock()
        return batch_ranges(self._cluster, decode(start), decode(end), self._loss)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        pieces: tuple[OffsetRange, ...] = partition.value
        yield from read_ranges(self._options, self._columns, pieces)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark calls this for every source when it begins a batch. The offsets themselves are in its checkpoint."""
        self._others_have_data = self._had_nothing

    def stop(self) -> None:
        if self._open_cluster is not None:
            self._open_cluster.close()
            self._open_cluster = None

"""A topic as a DataFrame of what it holds now: `spark.read.format("penstock")`.

Owns the bounds of a batch query: what the starting and ending options come to, and what is no longer there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from penstock.pipeline.topics.data_loss import DataLossPolicy
from penstock.pipeline.topics.errors import InvalidOption
from penstock.pipeline.topics.options import SourceOptions
from penstock.pipeline.topics.planning import OffsetRange, divide
from penstock.pipeline.topics.positions import Earliest
from penstock.pipeline.topics.range_reader import read_range
from penstock.pipeline.topics.resolution import TopicCluster, require_all, resolve, selected
from penstock.pipeline.topics.wire_cluster import WireCluster

if TYPE_CHECKING:
    import pyarrow as pa


class TopicBatchReader(DataSourceReader):
    """Pickled to the tasks, so it holds nothing but what was asked for."""

    def __init__(
        self,
        options: SourceOptions,
        columns: Sequence[str],
        connect: Callable[[SourceOptions], TopicCluster] = WireCluster,
    ) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._connect = connect

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        with closing(self._connect(options)) as cluster:
            ranges = batch_query_ranges(cluster, options, DataLossPolicy(options.fail_on_data_loss))
        parts = divide(
            ranges,
            min_partitions=options.min_partitions,
            max_records_per_partition=options.max_records_per_partition,
        )
        return [InputPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # Spark makes a partition without a value where there is none to read.
        if partition.value is not None:
            yield from read_range(self._options, self._columns, partition.value)


def batch_query_ranges(cluster: TopicCluster, options: SourceOptions, loss: DataLossPolicy) -> list[OffsetRange]:
    topics = cluster.topics(options.selection)
    require_all(options.selection, topics)
    partitions = selected(options.selection, topics)
    starts = resolve(cluster, partitions, options.starting, options, is_start=True)
    ends = resolve(cluster, partitions, options.ending, options, is_start=False)
    earliest, latest = cluster.earliest(partitions), cluster.latest(partitions)
    ranges = []
    for partition in sorted(partitions & earliest.keys() & latest.keys()):
        first, last = starts[partition], ends[partition]
        if first > last and not isinstance(options.starting, Earliest):
            raise InvalidOption(f"{partition}: the starting offset {first} is behind the ending offset {last}")
        if last > latest[partition]:
            loss.ends_early(partition, last, latest[partition])
            last = latest[partition]
        if first < earliest[partition] or first > last:
            loss.aged_out(partition, min(first, last), earliest[partition])
            first = earliest[partition]
        ranges.append(OffsetRange(partition, first, last))
    return ranges

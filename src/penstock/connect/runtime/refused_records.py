"""Where the records of a task are in their topics, and these records again, for a sink that refuses them late.

A writer that writes in bulk learns which records its system refuses when all of them were put, or the driver does when
it commits. By then nothing of the bytes that were read is left, so they are read again.

Owns the numbers of a task's records. It must not know why they were refused.

Invariant: `rows` of groups count the records of a task, over all of its batches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.connect.connector import RetriableError
from penstock.connect.data.records import Failure, RecordGroup
from penstock.connect.runtime.client_settings import ConsumerSettings
from penstock.connect.runtime.topic_reading import read_ranges
from penstock.core.ids import TopicPartition
from penstock.pipeline.topics.planning import OffsetRange

if TYPE_CHECKING:
    from numpy.typing import NDArray


class RecordPlaces:
    """Of a task's records, in the order in which they were read. Picklable."""

    def __init__(self) -> None:
        self.count = 0
        self._batches: list[tuple[int, TopicPartition, NDArray[np.int64]]] = []

    def add(self, batch: pa.RecordBatch) -> None:
        """`batch` has records of one partition."""
        partition = TopicPartition(batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py())
        self._batches.append((self.count, partition, np.asarray(batch.column("offset"))))
        self.count += batch.num_rows

    def of(self, row: int) -> tuple[TopicPartition, int]:
        first, partition, offsets = next(each for each in reversed(self._batches) if each[0] <= row)
        return partition, int(offsets[row - first])


def numbered(group: RecordGroup, first: int) -> RecordGroup:
    """`first` is the number of the batch's first record."""
    return replace(group, rows=pc.add(group.rows, first)) if first else group


def of_batch(failures: Iterable[Failure], first: int) -> list[Failure]:
    """Failures of a group that was `numbered`, with the rows of its batch."""
    return [replace(failure, rows=[row - first for row in failure.rows]) for failure in failures]


def records_again(settings: ConsumerSettings, places: RecordPlaces, rows: Sequence[int]) -> pa.RecordBatch:
    """The records that were read, with their numbers in the column `row`. Raises RetriableError if one is gone."""
    wanted = {places.of(row): row for row in rows}
    ranges = [OffsetRange(partition, offset, offset + 1) for partition, offset in sorted(wanted)]
    batches = list(read_ranges(settings, ranges))
    if sum(batch.num_rows for batch in batches) != len(wanted):
        raise RetriableError("a record that the sink refuses is not in its topic any more; the batch is read again")
    found = pa.Table.from_batches(batches).combine_chunks()
    keys = zip(*(found.column(name).to_pylist() for name in ("topic", "partition", "offset")), strict=True)
    numbers = [wanted[TopicPartition(topic, partition), offset] for topic, partition, offset in keys]
    return found.append_column("row", pa.array(numbers, pa.int64())).to_batches()[0]

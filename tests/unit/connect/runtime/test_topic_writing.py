"""Where rows were written: what a source connector hears that asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from penstock.connect.runtime.topic_writing import TopicWriter
from penstock.core.ids import TopicPartition
from penstock.wire.produce import Produced


class Encoder:
    """Two records to a batch, partition by partition, as ColumnEncoder orders them."""

    def encode(self, records: pa.RecordBatch, _now_ms: int) -> Iterator[tuple[int, int, bytes]]:
        partitions = np.array([each or 0 for each in records.column("partition").to_pylist()])
        for partition in np.unique(partitions).tolist():
            left = int((partitions == partition).sum())
            while left:
                yield partition, min(left, 2), b"batch"
                left -= min(left, 2)


class Encoders:
    def of(self, _topic: str) -> Encoder:
        return Encoder()


class Sender:
    """Gives each batch the next hundred; the third one was a duplicate, whose offset the broker does not tell."""

    def __init__(self) -> None:
        self._sent: list[TopicPartition] = []
        self._count = 0

    def send(self, partition: TopicPartition, _batch: bytes) -> None:
        self._sent.append(partition)

    def flush(self) -> dict[TopicPartition, list[Produced]]:
        produced: dict[TopicPartition, list[Produced]] = {}
        for partition in self._sent:
            self._count += 1
            produced.setdefault(partition, []).append(Produced(-1 if self._count == 3 else self._count * 100))
        self._sent = []
        return produced


def records(rows: list[int], partitions: list[int | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"row": pa.array(rows), "partition": pa.array(partitions, pa.int32())})


def writer(*, follows_rows: bool) -> TopicWriter:
    encoders: Any = Encoders()
    sender: Any = Sender()
    return TopicWriter(encoders, sender, follows_rows=follows_rows)


def test_rows_are_followed_to_their_offsets() -> None:
    following = writer(follows_rows=True)
    following.write("t", records([10, 11, 12, 13, 14, 15], [1, 0, 1, 0, 1, 1]))
    following.write("t", records([16], [0]))
    following.flush()
    following.write("t", records([17], [1]))
    following.flush()
    found = [(each.partition.partition, each.base_offset, each.rows.tolist()) for each in following.written_rows]
    # The second batch of partition 1 is the duplicate.
    assert found == [(0, 100, [11, 13]), (0, 400, [16]), (1, 200, [10, 12]), (1, 500, [17])]


def test_records_whose_partition_the_partitioner_chooses_are_not_followed() -> None:
    following = writer(follows_rows=True)
    following.write("t", records([1, 2], [None, 0]))
    following.flush()
    assert following.written_rows == []


def test_without_being_asked_nothing_is_followed() -> None:
    plain = writer(follows_rows=False)
    plain.write("t", records([1, 2], [0, 0]))
    plain.flush()
    assert (plain.written_rows, plain.records) == ([], 2)

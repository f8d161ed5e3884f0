"""Writes columns of records to topics, in a task.

Owns the encoders of a task and the bound of what is not acknowledged. It must not know transactions: the sender that it
is given has one, or none.

Invariant: records of one partition are written in the order in which they came.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.connect.connector import ConnectError, WrittenRows
from penstock.connect.runtime.client_settings import ProducerSettings
from penstock.connect.runtime.topic_creation import TopicCreation
from penstock.core.ids import TopicPartition
from penstock.pipeline.kernel_cache import use_kernel_cache
from penstock.wire.client import BatchSender, WireClient

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from penstock.columns.encoding import ColumnEncoder

# A sender keeps what it has sent until it is flushed.
_UNFLUSHED_BYTES_MAX: Final = 32 * 1024 * 1024
_BATCH_BYTES_MIN: Final = 1024
# What cannot be compressed grows: by less than a hundredth, with every codec of Kafka's.
_COMPRESSION_OVERHEAD: Final = 100


class TopicEncoders:
    """One for each topic of a task: it asks for the topic's partitions and limits once, and creates it if need be."""

    def __init__(
        self, client: WireClient, settings: ProducerSettings, creation: TopicCreation, first_turn: int
    ) -> None:
        self._client = client
        self._settings = settings
        self._creation = creation
        self._first_turn = first_turn
        self._encoders: dict[str, ColumnEncoder] = {}

    def of(self, topic: str) -> ColumnEncoder:
        encoder = self._encoders.get(topic)
        if encoder is None:
            encoder = self._encoders[topic] = self._make(topic)
        return encoder

    def _make(self, topic: str) -> ColumnEncoder:
        # numba and Arrow are loaded where rows are encoded, and nowhere else.
        use_kernel_cache()
        from penstock.columns.encoding import BatchLimits, ColumnEncoder
        from penstock.columns.partitioning import ColumnPartitioner
        from penstock.protocol.compression import Compression

        partitions = self._creation.partition_count(self._client, topic)
        batch_bytes = self._settings.batch_bytes
        largest = self._client.topic_config(topic, "max.message.bytes")
        if largest is not None and largest.isdigit():
            batch_bytes = min(batch_bytes, int(largest) - int(largest) // _COMPRESSION_OVERHEAD)
        return ColumnEncoder(
            ColumnPartitioner(partitions, first_turn=self._first_turn),
            compression=Compression[self._settings.compression.upper()],
            limits=BatchLimits(bytes_max=max(batch_bytes, _BATCH_BYTES_MIN)),
        )


class TopicWriter:
    def __init__(self, encoders: TopicEncoders, sender: BatchSender, *, follows_rows: bool = False) -> None:
        """`follows_rows`: `written_rows` tells where records with a row number and a partition have been written."""
        self._encoders = encoders
        self._sender = sender
        self._unflushed = 0
        self._follows_rows = follows_rows
        self._rows_unflushed: dict[TopicPartition, list[NDArray[np.int64] | None]] = {}
        self.written_rows: list[WrittenRows] = []
        self.records = 0
        self.bytes = 0

    def write(self, topic: str, records: pa.RecordBatch) -> None:
        """`records` has the columns that ColumnEncoder takes."""
        rows = _rows_by_partition(records) if self._follows_rows else None
        done = 0
        try:
            for partition, count, content in self._encoders.of(topic).encode(records, time.time_ns() // 1_000_000):
                target = TopicPartition(topic, partition)
                self._sender.send(target, content)
                if self._follows_rows:
                    mine = None if rows is None else rows[done : done + count]
                    self._rows_unflushed.setdefault(target, []).append(mine)
                done += count
                self.records += count
                self.bytes += len(content)
                self._unflushed += len(content)
                if self._unflushed >= _UNFLUSHED_BYTES_MAX:
                    self.flush()
        except ValueError as mistake:
            raise ConnectError(f"topic '{topic}': {mistake}") from mistake

    def flush(self) -> None:
        """Returns when all records are acknowledged."""
        produced = self._sender.flush()
        self._unflushed = 0
        for partition, batches in self._rows_unflushed.items():
            for rows, batch in zip(batches, produced[partition], strict=True):
                if rows is not None and batch.base_offset >= 0:
                    self.written_rows.append(WrittenRows(partition, batch.base_offset, rows))
        self._rows_unflushed = {}


def _rows_by_partition(records: pa.RecordBatch) -> NDArray[np.int64] | None:
    """Row numbers in the order in which ColumnEncoder writes; None if the partitioner decides, or rows have none."""
    names = records.schema.names
    if "row" not in names or "partition" not in names or records.column("partition").null_count:
        return None
    partitions = records.column("partition").to_numpy(zero_copy_only=False)
    order = np.argsort(partitions, kind="stable")
    return np.asarray(records.column("row").to_numpy(zero_copy_only=False), np.int64)[order]

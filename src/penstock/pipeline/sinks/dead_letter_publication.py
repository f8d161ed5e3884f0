"""Publishes the dead letters of a micro-batch from the driver, for sinks that have no transaction to put them in.

With exactly_once, one Kafka transaction holds the letters and the batch's id, as the offset of the group
`<pipeline>.dead_letters`; a batch that is replayed finds its id there and publishes nothing. The id counts only with
the checkpoint that gave it, which the offset's metadata names.

With the other guarantees the letters are simply written, before the good rows.

Invariant: the driver's memory holds one chunk of letters at a time, however many there are. More than one wait in a
file, not in an open transaction, which has a timeout.
"""

from __future__ import annotations

import itertools
import json
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from penstock.core.guarantee import Guarantee
from penstock.core.ids import OffsetAndMetadata, TopicPartition
from penstock.pipeline import crash_points
from penstock.pipeline.kernel_cache import use_kernel_cache
from penstock.pipeline.rows.dead_letters import record_columns
from penstock.wire.client import WireClient

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_CHUNK_ROWS: Final = 10_000


class DeadLetterPublication:
    """`settings` are the client settings of the brokers; `checkpoint_id` is what the batch ids belong to."""

    def __init__(
        self, pipeline: str, topic: str, settings: Mapping[str, str], checkpoint_id: str, guarantee: Guarantee
    ) -> None:
        self._pipeline = pipeline
        self._topic = topic
        self._settings = dict(settings)
        self._metadata = json.dumps({"checkpoint": checkpoint_id})
        self._guarantee = guarantee
        self._name = f"{pipeline}.dead_letters"
        self._place = TopicPartition(topic, 0)

    def __call__(self, letters: DataFrame, batch_id: int) -> None:
        records = letters.select(*record_columns(self._pipeline, self._topic))
        if self._guarantee != "exactly_once":
            options = {f"kafka.{name}": value for name, value in self._settings.items()}
            records.write.format("penstock").mode("append").options(**options).save()
            return
        with _collected(records.select("key", "value", "headers")) as chunks, WireClient(self._settings) as client:
            first = next(chunks, None)
            if first is not None:
                self._publish_once(client, itertools.chain([first], chunks), batch_id)

    def _publish_once(self, client: WireClient, chunks: Iterator[pa.RecordBatch], batch_id: int) -> None:
        use_kernel_cache()
        from penstock.columns.encoding import ColumnEncoder
        from penstock.columns.partitioning import ColumnPartitioner

        # Fences an earlier run and ends its transaction, so that the offset read next is final.
        producer = client.init_producer_id(self._name)
        committed = client.offset_fetch(self._name, [self._place]).get(self._place)
        if committed is not None and committed.metadata == self._metadata and committed.offset > batch_id:
            return
        partitions = len(client.metadata([self._topic]).topics[self._topic].partitions)
        encoder = ColumnEncoder(ColumnPartitioner(partitions))
        sender = client.sender(producer=producer, transactional_id=self._name)
        for chunk in chunks:
            for batch in encoder.encode(chunk, int(time.time() * 1000)):
                sender.send(TopicPartition(self._topic, batch.partition), batch.content)
        sender.flush()
        offset = OffsetAndMetadata(batch_id + 1, self._metadata)
        client.txn_offset_commit(self._name, producer, self._name, {self._place: offset})
        crash_points.reached("batch.dead_letters_sent")
        client.end_txn(self._name, producer, commit=True)


@contextmanager
def _collected(letters: DataFrame) -> Iterator[Iterator[pa.RecordBatch]]:
    """The rows in chunks. A few come at once, with one job of Spark; many by way of a file, with a job a partition."""
    few = letters.limit(_CHUNK_ROWS + 1).toArrow()
    if few.num_rows <= _CHUNK_ROWS:
        yield iter(few.combine_chunks().to_batches())
        return
    import pyarrow as pa

    with tempfile.TemporaryFile() as file:
        rows = letters.toLocalIterator()
        with pa.ipc.new_stream(file, few.schema) as writer:
            while chunk := list(itertools.islice(rows, _CHUNK_ROWS)):
                named = [row.asDict(recursive=True) for row in chunk]
                writer.write_batch(pa.RecordBatch.from_pylist(named, few.schema))
        file.seek(0)
        with pa.ipc.open_stream(file) as reader:
            yield iter(reader)

"""A stream's writer used for one micro-batch at a time, inside `foreachBatch`.

Spark lets a Python data source write a stream in the output modes append and complete only. What update mode makes,
the changed rows of an aggregation, reaches the same writers this way: every micro-batch is a job of its own, with the
writer of the stream, which is told the batch id by an option. Its tasks know batch and query as those of a stream do,
for Spark hands both down to the jobs that a micro-batch starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from penstock.pipeline.sinks.batch_functions import BatchFunction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_FORMAT: Final = "penstock_micro_batch"
_SINK: Final = "micro_batch_sink"
_BATCH_ID: Final = "micro_batch_id"


class MicroBatchSink(DataSource):
    @classmethod
    def name(cls) -> str:
        return _FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> MicroBatchWriter:
        options = {name: value for name, value in self.options.items() if name not in (_SINK, _BATCH_ID)}
        return MicroBatchWriter(_stream_writer(self.options[_SINK], options, schema), int(self.options[_BATCH_ID]))


def _stream_writer(sink: str, options: Mapping[str, str], schema: StructType) -> DataSourceStreamArrowWriter:
    if sink == "topic":
        from penstock.pipeline.topics.writer import stream_writer

        return stream_writer(options, schema, overwrite=False)
    from penstock.pipeline.sinks.table_target import TableTarget
    from penstock.pipeline.sinks.table_writer import TableWriter

    return TableWriter(TableTarget.from_options(options), schema)


class MicroBatchWriter(DataSourceArrowWriter):
    def __init__(self, writer: DataSourceStreamArrowWriter, batch_id: int) -> None:
        self._writer = writer
        self._batch_id = batch_id

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return self._writer.write(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writer.commit(messages, self._batch_id)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._writer.abort(messages, self._batch_id)


def micro_batch_function(sink: str, options: Mapping[str, str]) -> BatchFunction:
    """For `foreachBatch`; `sink` is topic or table, `options` are those of its stream writer."""

    def write(rows: DataFrame, batch_id: int) -> None:
        rows.sparkSession.dataSource.register(MicroBatchSink)
        told = {**options, _SINK: sink, _BATCH_ID: str(batch_id)}
        rows.write.format(_FORMAT).mode("append").options(**told).save()

    return write

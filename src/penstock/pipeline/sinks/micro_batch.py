"""Data sources of ours as sinks of a stream, in every output mode.

Spark lets a Python data source write a stream in the output modes append and complete only. For update mode, the
changed rows of an aggregation, `foreachBatch` runs each micro-batch as a job of its own with the stream's writer, which
gets the batch id as an option. Its tasks know batch and query as those of a stream do: Spark passes both on to the jobs
that a micro-batch starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, cast

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter
    from pyspark.sql.types import StructType

_FORMAT: Final = "penstock_micro_batch"
_DATA_SOURCE: Final = "micro_batch_data_source"
_BATCH_ID: Final = "micro_batch_id"


def stream_writers(
    rows: DataFrame, data_source: type[DataSource], options: Mapping[str, str], mode: str
) -> Callable[[], DataStreamWriter]:
    """Makes writers of `rows` into the data source; a new one with each call. `mode` is Spark's output mode."""
    if mode == "update":
        return lambda: rows.writeStream.foreachBatch(micro_batch_function(data_source, options))
    return lambda: rows.writeStream.format(data_source.name()).options(**options)


class MicroBatchSink(DataSource):
    @classmethod
    def name(cls) -> str:
        return _FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> MicroBatchWriter:
        options = {name: value for name, value in self.options.items() if name not in (_DATA_SOURCE, _BATCH_ID)}
        module, _, name = self.options[_DATA_SOURCE].partition(":")
        data_source: type[DataSource] = getattr(import_module(module), name)
        writer = cast(DataSourceStreamArrowWriter, data_source(options).streamWriter(schema, overwrite=False))
        return MicroBatchWriter(writer, int(self.options[_BATCH_ID]))


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


def micro_batch_function(data_source: type[DataSource], options: Mapping[str, str]) -> Callable[[DataFrame, int], None]:
    """For `foreachBatch`; `options` are those of the data source's stream writer."""

    def write(rows: DataFrame, batch_id: int) -> None:
        rows.sparkSession.dataSource.register(MicroBatchSink)
        reference = f"{data_source.__module__}:{data_source.__qualname__}"
        given = {**options, _DATA_SOURCE: reference, _BATCH_ID: str(batch_id)}
        rows.write.format(_FORMAT).mode("append").options(**given).save()

    return write

"""The file sink at run time: rows become files of a directory.

With exactly_once, Spark's own file sink writes: a file counts when the directory's `_spark_metadata` lists it, and a
listed batch is not written again. Spark recognises batches by their number alone, and would silently skip batches of a
new checkpoint in a directory with older ones. So the directory is marked with the checkpoint that it belongs to
(`directory.py`), and any other checkpoint is refused.

With the other guarantees, plain files are moved into place at the end of the batch's job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.pipeline.failure import failure_text
from penstock.pipeline.rows.dead_letters import DEAD_LETTER
from penstock.pipeline.sinks.batch_sink import BatchFunction, BatchSinkWriter
from penstock.pipeline.sinks.files.declaration import FileSink
from penstock.pipeline.sinks.files.directory import OutputDirectory, not_writable
from penstock.pipeline.sinks.files.shape import FileShape
from penstock.pipeline.sinks.sink_writer import SinkCheck, SinkStart
from penstock.pipeline.spark.internals import file_stream_writer, is_from_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class FileSinkWriter(BatchSinkWriter):
    def __init__(self, sink: FileSink) -> None:
        self._sink = sink

    def batch_writer(self, start: SinkStart) -> BatchFunction:
        """Checks that the directory is, or may become, this pipeline's. Raises PipelineFailed if not."""
        sink = self._sink
        spark = start.rows.sparkSession
        is_listed = start.spec.guarantee == "exactly_once"
        OutputDirectory(spark, sink.files).claim(
            start.spec.name,
            start.checkpoint,
            start.checkpoint_id,
            FileShape.of(sink, start.rows.drop(DEAD_LETTER).schema),
            is_listed=is_listed,
            adds_columns=sink.schema_evolution == "add_columns",
        )
        if not is_listed:
            return _explaining(_plain_writer(sink), sink.files)
        partition_by = sink.partition_by or ()
        return _explaining(file_stream_writer(spark, sink.format, sink.files, partition_by, _options(sink)), sink.files)

    def check_result(self, check: SinkCheck, result: DataFrame) -> None:
        check.require_columns(("sink", "partition_by"), result, self._sink.partition_by or ())


def _plain_writer(sink: FileSink) -> BatchFunction:
    options = _options(sink)

    def write(rows: DataFrame, _batch_id: int) -> None:
        writer = rows.write.mode("append").format(sink.format).options(**options)
        if sink.partition_by:
            writer = writer.partitionBy(*sink.partition_by)
        writer.save(sink.files)

    return write


def _explaining(write: BatchFunction, path: str) -> BatchFunction:
    """A directory that can no longer be written is said in one line, in place of a fragment of Spark's plan."""

    def explained(rows: DataFrame, batch_id: int) -> None:
        try:
            write(rows, batch_id)
        except Exception as failure:
            error = not_writable(path, failure_text(failure)) if is_from_java(failure) else None
            if error is None:
                raise
            raise error from None

    return explained


def _options(sink: FileSink) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in sink.options.items()}

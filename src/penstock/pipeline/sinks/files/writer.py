"""The file sink at run time: rows become files of a directory.

With exactly_once, Spark's own file sink writes: a file counts when the directory's `_spark_metadata` lists it, and a
listed batch is not written again. Spark recognises batches by their number alone, and would silently skip batches of a
new checkpoint in a directory with older ones. So the directory is marked with the checkpoint that it belongs to, and
any other checkpoint is refused.

With the other guarantees, plain files are moved into place at the end of the batch's job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.checkpoint import Checkpoint
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.sinks.batch_sink import BatchFunction, BatchSinkWriter
from penstock.pipeline.sinks.files.declaration import FileSink
from penstock.pipeline.sinks.sink_writer import SinkCheck, SinkStart
from penstock.pipeline.spark.internals import MANIFEST, file_stream_writer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Names that begin with an underscore are invisible to Spark's readers.
_MARKER: Final = "_penstock"


class FileSinkWriter(BatchSinkWriter):
    def __init__(self, sink: FileSink) -> None:
        self._sink = sink

    def batch_writer(self, start: SinkStart) -> BatchFunction:
        """Checks that the directory is, or may become, this pipeline's. Raises PipelineFailed if not."""
        sink, guarantee = self._sink, start.spec.guarantee
        spark = start.rows.sparkSession
        directory = Checkpoint(spark, sink.files)
        has_manifest = directory.exists(MANIFEST)
        if guarantee != "exactly_once":
            if has_manifest:
                raise PipelineFailed(
                    f"{sink.files} was written with exactly_once, and its list of files ({MANIFEST}) would hide what"
                    f" is added with {guarantee}; write to another directory",
                    ExitCode.SINK_REFUSED,
                )
            return _plain_writer(sink)
        marked = directory.read_file(_MARKER)
        if marked is None and not has_manifest:
            directory.write_file(_MARKER, {"pipeline": start.spec.name, "checkpoint": start.checkpoint_id})
        elif marked is None or marked.get("checkpoint") != start.checkpoint_id:
            owner = f"by the pipeline '{marked.get('pipeline')}' " if marked else ""
            raise PipelineFailed(
                f"{sink.files} was written {owner}with another checkpoint, and batches of this one would be taken for"
                " its batches; write to another directory, or go on with that checkpoint",
                ExitCode.SINK_REFUSED,
            )
        start.checkpoint.require_planned(directory.last_number(MANIFEST), None, f"directory {sink.files}")
        return file_stream_writer(spark, sink.format, sink.files, sink.partition_by or (), _options(sink))

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


def _options(sink: FileSink) -> dict[str, str]:
    return {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in sink.options.items()}

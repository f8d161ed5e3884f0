"""The function sink at run time: gives each micro-batch to a Python function of the author's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.core.exit_codes import ExitCode
from penstock.pipeline.declaration.function_reference import FunctionMissing, argument_count, load_function
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.sinks.batch_sink import BatchFunction, BatchSinkWriter
from penstock.pipeline.sinks.function.declaration import FunctionSink
from penstock.pipeline.sinks.sink_writer import SinkCheck, SinkStart

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class FunctionSinkWriter(BatchSinkWriter):
    def __init__(self, sink: FunctionSink) -> None:
        self._sink = sink

    def batch_writer(self, start: SinkStart) -> BatchFunction:
        """A function of two arguments is also given the batch id, which is the same when a batch is replayed."""
        try:
            function = start.function or load_function(self._sink.python, start.directory)
        except FunctionMissing as missing:
            raise PipelineFailed(f"sink.python: {missing}", ExitCode.INVALID_PIPELINE) from missing
        takes_id = argument_count(function) > 1

        def write(rows: DataFrame, batch_id: int) -> None:
            if takes_id:
                function(rows, batch_id)
            else:
                function(rows)

        return write

    def check_settings(self, check: SinkCheck) -> None:
        try:
            function = check.function or load_function(self._sink.python, check.directory)
        except FunctionMissing as missing:
            check.problem(("sink", "python"), str(missing))
            return
        needed = 2 if check.spec.guarantee == "exactly_once" else 1
        if argument_count(function) < needed:
            what = "the DataFrame and the batch id" if needed == 2 else "the DataFrame"
            check.problem(("sink", "python"), f"the function must take {what}")

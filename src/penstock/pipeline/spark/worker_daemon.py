"""The process that Spark forks its Python workers from, with what they need already imported.

Spark starts it in place of `pyspark.daemon` (`spark.python.daemon.module`). It imports the modules that a task would
otherwise import one after the other in every new worker, and then becomes pyspark's own daemon, unchanged: sockets,
signals, reuse and the killing of workers are pyspark's.

Invariant: no thread runs when the daemon forks. A thread does not survive a fork, but a lock that it held does.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import itertools
import os
import sys
import traceback
from collections.abc import Iterable
from typing import Final

from penstock.pipeline.kernel_cache import use_kernel_cache
from penstock.pipeline.sinks.table.databases import DIALECTS

# What a worker of any pipeline imports. A module that is not installed, or that does not load, is left to the task that
# asks for it and gets the error where it belongs.
_ALWAYS: Final = (
    "encodings.idna",  # which a process otherwise looks for when it first connects to a host by its name
    "pyarrow",
    "pyarrow.compute",
    "numpy",
    "pyspark.worker",
    "pyspark.sql.datasource",
    "pyspark.sql.datasource_internal",
    "pyspark.sql.streaming.datasource",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.conversion",
    "pyspark.sql.pandas.serializers",
    "pyspark.daemon",
    "penstock.wire.client",
    "penstock.columns.encoding",
    "penstock.columns.decoding",
    "penstock.pipeline.topics.batch_reader",
    "penstock.pipeline.topics.row_schema",
    "penstock.pipeline.topics.stream_reader",
    "penstock.pipeline.topics.writer",
    "pyspark_penstock",
)
# What only some import: a third of the time, which a start on two cores takes from the JVM.
PURPOSES: Final = {
    "functions": ("pandas",),
    "tables": (
        *(module for dialect in DIALECTS for module in dialect.worker_modules),
        "penstock.pipeline.sinks.table.data_source",
    ),
}

_SETTLING_TASKS: Final = 8


def preload(purposes: Iterable[str] = PURPOSES) -> None:
    """Imports what workers need for `purposes`, and takes all of it out of the garbage collector's sight.

    pyspark's daemon runs a full collection after every task. Over some hundred thousand objects of imported modules,
    none of which can ever be garbage, that costs more than a small task does.
    """
    # numpy's linear algebra and Arrow's second allocator otherwise start threads when they are imported.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")
    with contextlib.suppress(ImportError):
        use_kernel_cache()
    for name in itertools.chain(_ALWAYS, *(PURPOSES[purpose] for purpose in purposes)):
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


class _Reports:
    """Stands in for the module `traceback` in pyspark's daemon."""

    @staticmethod
    def print_exc() -> None:
        # Spark hangs up on a task that it has killed, as it does whenever a query is stopped. It knows.
        if not isinstance(sys.exception(), BrokenPipeError):
            traceback.print_exc()

    format_exc = staticmethod(traceback.format_exc)


class Collections:
    """Stands in for the module `gc` in pyspark's daemon, which runs a full collection after every task.

    What a worker's first tasks made, it keeps: modules, connections, what Arrow and numba remember. That too is taken
    out of the collector's sight, so that a collection looks at what the last task left and at nothing else.
    """

    def __init__(self) -> None:
        self._tasks = 0

    def collect(self) -> int:
        found = gc.collect()
        if self._tasks < _SETTLING_TASKS:
            self._tasks += 1
            gc.freeze()
        return found


def main() -> None:
    from pyspark import daemon

    if not gc.get_freeze_count():  # else it was forked from a zygote, which knows what its workers are for
        preload()
    vars(daemon)["traceback"] = _Reports
    vars(daemon)["gc"] = Collections()
    daemon.manager()


if __name__ == "__main__":
    main()

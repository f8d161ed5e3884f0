"""The Spark of a worker: its settings, and when it starts.

Owns what a worker wants of Spark beyond what pipelines want. `penstock.pipeline.spark` starts it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from penstock.connect.connector import ConnectError
from penstock.connect.runtime.spark_jobs import SparkJobs
from penstock.pipeline.spark.java import JavaMissingError
from penstock.pipeline.spark.jvm import JvmError
from penstock.pipeline.spark.master import InvalidMaster, MasterError, require_master
from penstock.pipeline.spark.session import TASK_ATTEMPTS, SparkSettings, end_jvm, start

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SLOTS_MIN: Final = 4


@contextlib.contextmanager
def worker_spark(master: str | None = None, conf: Mapping[str, str] | None = None) -> Iterator[SparkJobs]:
    """Spark starts with the first job, and ends with the context. `master` is a cluster's URL; None is this machine.

    Raises ConnectError for a URL that is none. A job raises it if Spark does not start.
    """
    if master is not None:
        with _refusals():
            require_master(master)
    settings = SparkSettings(
        name="penstock connect",
        master=master or local_master(os.cpu_count() or 1),
        log_level="OFF",
        functions=False,
        tables=False,
        conf={
            # Each connector has a pool of its own: a large job of one does not hold up small ones of others.
            "spark.scheduler.mode": "FAIR",
            **(conf or {}),
        },
    )

    def start_spark() -> SparkSession:
        with _refusals():
            return start(settings)

    jobs = SparkJobs(start_spark)
    try:
        yield jobs
    finally:
        jobs.close()
        end_jvm()


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except InvalidMaster as mistake:
        raise ConnectError(f"--master {mistake}") from mistake
    except (JavaMissingError, JvmError, MasterError) as missing:
        raise ConnectError(str(missing)) from missing


def local_master(cores: int) -> str:
    """More tasks than cores, because many of them wait for a broker or a database.

    A task whose process dies is attempted again, which does nothing (`spark_jobs.py`), so that the job waits for its
    other tasks: one that went on while the connector starts again would write beside it.
    """
    return f"local[{max(_SLOTS_MIN, 2 * cores)},{TASK_ATTEMPTS}]"

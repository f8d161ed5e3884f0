"""A driver that copies a topic exactly once, or as often as it is told to: for tests that kill it.

    python -m tests.pipeline.topic_copy_driver '{"servers": ..., "source": ..., "target": ..., "checkpoint": ...}'

When it may begin (`spark_process.py`), it copies until it has caught up. A query that fails is started again, as a
supervisor does. Exit codes: 0 caught up, 27 fenced, 30 failed for good.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from penstock.core.exit_codes import ExitCode
from tests.pipeline.spark_process import SparkProcess, announce_session

_RESTARTS_MAX: Final = 20


@dataclass(frozen=True)
class CopyJob:
    servers: str
    source: str
    target: str
    checkpoint: str
    guarantee: str = "exactly_once"
    name: str = "copy"
    arranged: bool = True
    batch_records: int = 100
    slowness_s: float = 0.0
    """How long each task takes at least, for tests that need a batch to last."""


class CopyDriver(SparkProcess):
    """A driver as a process. `begin` lets it start its query."""

    def __init__(self, job: CopyJob, crash_directory: Path, log: Path) -> None:
        super().__init__("tests.pipeline.topic_copy_driver", asdict(job), crash_directory, log)


def main() -> ExitCode:
    from penstock.pipeline.failure import classify
    from penstock.pipeline.spark import session
    from penstock.pipeline.topics.transaction import claim_ownership

    job = CopyJob(**json.loads(sys.argv[1]))
    spark = session.start_session(job.name)
    announce_session()
    options = sink_options(job)
    if job.guarantee != "at_least_once":
        claim_ownership(options)
    code = ExitCode.PIPELINE_FAILED
    for _ in range(_RESTARTS_MAX):
        try:
            start_query(spark, job, options).awaitTermination()
            code = ExitCode.OK
            break
        except Exception as failure:
            found = classify(failure)
            print("failed:", found.condition, found.line, file=sys.stderr, flush=True)
            if found.condition == "PENSTOCK_SINK_FENCED":
                code = ExitCode.FENCED
                break
            if found.condition not in ("PENSTOCK_BATCH_INTERRUPTED", "PENSTOCK_BROKER_UNREACHABLE"):
                break
    spark.stop()
    return code


def sink_options(job: CopyJob) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": job.servers,
        "topic": job.target,
        "guarantee": job.guarantee,
        "transactionalId": job.name,
        "run": uuid.uuid4().hex,
        "batchRows": "10",  # several record batches for each partition, so that some are sent before others
    }


def start_query(spark: Any, job: CopyJob, options: Mapping[str, str]) -> Any:
    from penstock.pipeline.topics.row_encoding import repartition_by_target

    rows = (
        spark.readStream.format("penstock")
        .option("kafka.bootstrap.servers", job.servers)
        .option("subscribe", job.source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", str(job.batch_records))
        .load()
        .select("key", "value")
    )
    if job.slowness_s:
        rows = rows.mapInArrow(_slowly(job.slowness_s), rows.schema)
    written = repartition_by_target(rows, options) if job.arranged else rows
    writer = written.writeStream.format("penstock").options(**options)
    return writer.option("checkpointLocation", job.checkpoint).trigger(availableNow=True).start()


def _slowly(seconds: float) -> Any:
    def delayed(batches: Any) -> Any:
        import time

        time.sleep(seconds)
        yield from batches

    return delayed


if __name__ == "__main__":
    sys.exit(main())

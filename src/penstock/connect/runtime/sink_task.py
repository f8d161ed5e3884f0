"""What one task of a sink's job does: read its ranges, make groups of records, and write them.

It must not know positions: the driver plans, and commits what tasks have finished.

Invariants:
- `finish` has returned, and all dead letters are acknowledged, before a result exists.
- `rows` of groups number the records of a task, so that their order is known over all of its batches.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.connect.connector import SinkConnector
from penstock.connect.data.records import Failure
from penstock.connect.runtime.client_settings import ConsumerSettings
from penstock.connect.runtime.record_steps import RecordSteps, SinkSteps
from penstock.connect.runtime.refused_records import RecordPlaces, numbered, of_batch, records_again
from penstock.connect.runtime.topic_reading import read_ranges
from penstock.core.guarantee import Guarantee
from penstock.pipeline import crash_points
from penstock.pipeline.topics.planning import OffsetRange


@dataclass(frozen=True, slots=True)
class SinkTask:
    number: int
    connector: SinkConnector
    guarantee: Guarantee
    settings: ConsumerSettings
    ranges: Sequence[OffsetRange]
    steps: RecordSteps
    keeps_places: bool = False
    """The result says where records were: the commit may refuse some of them."""


@dataclass(frozen=True, slots=True)
class SinkTaskResult:
    """`outcome` is what the writer's `finish` returned, and `seconds` how long the task worked."""

    outcome: Any
    records: int
    bytes: int
    failed: int = 0
    seconds: float = 0.0
    log_lines: Sequence[str] = ()
    places: RecordPlaces | None = None


def run_sink_task(task: SinkTask) -> SinkTaskResult:
    begun_s = time.monotonic()
    writer = task.connector.open_writer(task.number, task.guarantee)
    size = 0
    places = RecordPlaces()
    try:
        steps = task.steps.of_sink(task.number)
        writer.refuse = lambda failures: refuse_late(task.settings, places, steps, failures)
        for batch in read_ranges(task.settings, task.ranges):
            first = places.count
            places.add(batch)
            size += batch.nbytes
            for group in steps.to_groups(batch):
                failures = writer.put(numbered(group, first))
                if failures:
                    steps.refused(batch, of_batch(failures, first))
        steps.finish()
        outcome = writer.finish()
        failed = steps.failed
        crash_points.reached("connect.sink_task_written")
    except BaseException:
        writer.abandon()
        raise
    seconds = time.monotonic() - begun_s
    kept = places if task.keeps_places else None
    return SinkTaskResult(outcome, places.count, size, failed, seconds, steps.log_lines, kept)


def refuse_late(
    settings: ConsumerSettings, places: RecordPlaces, steps: SinkSteps, failures: Sequence[Failure]
) -> None:
    """Of records that were put before. Their letters are acknowledged when it returns."""
    rows = sorted({row for failure in failures for row in failure.rows})
    steps.refused(records_again(settings, places, rows), failures)
    steps.finish()

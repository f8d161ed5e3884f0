"""What one task of a sink's job does: read its ranges, make groups of records, and write them.

It must not know positions: the driver plans, and commits what tasks have finished.

Invariant: `finish` has returned, and all dead letters are acknowledged, before a result exists.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penstock.connect.connector import SinkConnector
from penstock.connect.runtime.client_settings import ConsumerSettings
from penstock.connect.runtime.record_steps import RecordSteps
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


@dataclass(frozen=True, slots=True)
class SinkTaskResult:
    """`outcome` is what the writer's `finish` returned, and `seconds` how long the task worked."""

    outcome: Any
    records: int
    bytes: int
    failed: int = 0
    seconds: float = 0.0
    log_lines: Sequence[str] = ()


def run_sink_task(task: SinkTask) -> SinkTaskResult:
    begun_s = time.monotonic()
    writer = task.connector.open_writer(task.number, task.guarantee)
    records = size = 0
    try:
        steps = task.steps.of_sink(task.number)
        for batch in read_ranges(task.settings, task.ranges):
            records += batch.num_rows
            size += batch.nbytes
            for group in steps.to_groups(batch):
                failures = writer.put(group)
                if failures:
                    steps.refused(batch, failures)
        failed = steps.finish()
        outcome = writer.finish()
        crash_points.reached("connect.sink_task_written")
    except BaseException:
        writer.abandon()
        raise
    return SinkTaskResult(outcome, records, size, failed, time.monotonic() - begun_s, steps.log_lines)

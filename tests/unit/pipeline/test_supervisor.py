"""When a query is started again and when a pipeline ends, with queries that only pretend."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

import pytest

pytest.importorskip("pyspark")

from pyspark.errors import StreamingQueryException

from penstock.core.errors import BrokerUnreachable, marker
from penstock.core.exit_codes import ExitCode
from penstock.core.metrics import Metrics
from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.pipeline_metrics import PipelineMetrics
from penstock.pipeline.progress import BatchProgress
from penstock.pipeline.run_settings import Event, RunSettings
from penstock.pipeline.supervisor import ATTEMPTS_WITHOUT_PROGRESS, Supervisor
from penstock.pipeline.topics.errors import Fenced

UNREACHABLE = marker(BrokerUnreachable("offsets: no broker answered in time (refused)"))


class Report:
    def __init__(self, batch: int, *, has_run: bool = True) -> None:
        self._batch = batch
        self._has_run = has_run

    def batchId(self) -> int:  # noqa: N802 (Spark's name)
        return self._batch

    def json(self) -> str:
        durations = {"addBatch": 1, "triggerExecution": 2} if self._has_run else {"triggerExecution": 2}
        told = {"batchId": self._batch, "timestamp": "t", "numInputRows": 10, "durationMs": durations, "sources": []}
        return json.dumps(told)


class Pretended:
    """A query that reports some batches, then ends: well, or with an error of this text."""

    def __init__(self, *reports: Report, error: str | None = None) -> None:
        self._reports = reports
        self._error = error
        self._jsq = self

    def awaitTermination(self, _timeout_ms: int) -> bool:  # noqa: N802
        if self._error is not None:
            raise StreamingQueryException(self._error)
        return True

    def lastProgress(self) -> Report | None:  # noqa: N802
        return self._reports[-1] if self._reports else None

    def recentProgress(self) -> tuple[Report, ...]:  # noqa: N802
        return self._reports


class Run:
    def __init__(self, queries: Iterable[Pretended], *, once: bool = True, owns: Iterable[bool] = ()) -> None:
        self.events: list[Event] = []
        self.batches: list[int] = []
        self.starts = 0
        self._queries: Iterator[Pretended] = iter(queries)
        settings = RunSettings(once=once, report=self.events.append)
        answers = iter(owns)
        self.supervisor = Supervisor(
            "p",
            self._start,
            settings,
            self._on_batch,
            first_pause_s=0.001,
            owns_checkpoint=lambda: next(answers, True),
            owner_check_s=0.001,
        )

    def _start(self) -> Any:
        self.starts += 1
        return next(self._queries)

    def _on_batch(self, batch: BatchProgress) -> None:
        self.batches.append(batch.batch_id)


def test_every_batch_that_has_run_is_told_once() -> None:
    reports = [Report(0), Report(1), Report(2), Report(3, has_run=False)]
    run = Run([Pretended(*reports)])
    run.supervisor.run()
    assert run.batches == [0, 1, 2]
    assert run.supervisor.tally.rows == 30


def test_what_may_pass_is_tried_again_and_progress_forgives() -> None:
    failing = [Pretended(Report(number), error="ValueError: odd") for number in range(ATTEMPTS_WITHOUT_PROGRESS + 2)]
    run = Run([*failing, Pretended()])
    run.supervisor.run()
    assert run.starts == len(failing) + 1
    assert [event["reason"] for event in run.events if event["event"] == "restarting"] == ["ValueError: odd"] * len(
        failing
    )


def test_batches_rows_and_restarts_are_counted_over_the_restarts() -> None:
    run = Run([Pretended(Report(0), Report(1), error="ValueError: odd"), Pretended(Report(1), Report(2))])
    run.supervisor.run()
    metrics = Metrics()
    figures = PipelineMetrics(metrics)
    for event in run.events:
        figures.apply(event)
    assert metrics.value("penstock_pipeline_batch_seconds_count", pipeline="p", sink="") == 3
    assert metrics.value("penstock_pipeline_rows_read_total", pipeline="p", sink="") == 30
    assert metrics.value("penstock_pipeline_restarts_total", pipeline="p", sink="") == 1


def test_what_does_not_pass_ends_after_a_few_attempts() -> None:
    run = Run(Pretended(error="ValueError: odd") for _ in range(100))
    with pytest.raises(PipelineFailed, match="ValueError: odd") as failed:
        run.supervisor.run()
    assert failed.value.exit_code == ExitCode.PIPELINE_FAILED
    assert run.starts == ATTEMPTS_WITHOUT_PROGRESS


def test_what_is_down_is_waited_for_unless_it_is_a_run_over_what_is_there() -> None:
    patient = Run(
        [*(Pretended(error=UNREACHABLE) for _ in range(9)), Pretended(error=marker(Fenced("over")))], once=False
    )
    with pytest.raises(PipelineFailed) as fenced:
        patient.supervisor.run()
    assert (fenced.value.exit_code, patient.starts) == (ExitCode.FENCED, 10)
    run = Run(Pretended(error=UNREACHABLE) for _ in range(100))
    with pytest.raises(PipelineFailed) as unreachable:
        run.supervisor.run()
    assert (unreachable.value.exit_code, run.starts) == (ExitCode.UNREACHABLE, ATTEMPTS_WITHOUT_PROGRESS)


def test_a_query_that_somebody_else_stopped_was_taken_over() -> None:
    with pytest.raises(PipelineFailed, match="another run of this pipeline has taken over") as taken:
        Run([Pretended()], once=False).supervisor.run()
    assert taken.value.exit_code == ExitCode.FENCED


OTHER_RUN = "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log"


class Endless(Pretended):
    """A query that goes on until it is stopped."""

    is_stopped = False
    isActive = True  # noqa: N815 (Spark's name)
    status: ClassVar = {"isTriggerActive": False, "message": "Waiting for data to arrive"}

    def awaitTermination(self, timeout_ms: int) -> bool:  # noqa: N802
        time.sleep(timeout_ms / 100_000)
        return self.is_stopped

    def stop(self) -> None:
        self.is_stopped = True


def test_of_two_runs_with_one_checkpoint_the_one_whose_it_is_goes_on() -> None:
    run = Run([Pretended(error=OTHER_RUN), Pretended()], owns=[True])
    run.supervisor.run()
    assert run.starts == 2


def test_of_two_runs_with_one_checkpoint_the_other_ends() -> None:
    run = Run([Pretended(error=OTHER_RUN), Pretended()], owns=[False])
    with pytest.raises(PipelineFailed, match="same checkpoint") as fenced:
        run.supervisor.run()
    assert (fenced.value.exit_code, run.starts) == (ExitCode.FENCED, 1)


def test_a_run_that_is_taken_over_ends_even_if_it_has_nothing_to_do() -> None:
    query = Endless()
    run = Run([query], once=False, owns=[True, True, False])
    with pytest.raises(PipelineFailed, match="taken over") as fenced:
        run.supervisor.run()
    assert fenced.value.exit_code == ExitCode.FENCED
    assert query.is_stopped

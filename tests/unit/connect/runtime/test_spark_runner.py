"""When a connector is tried again and when it has failed, without Spark and without a broker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from penstock.connect.config.definition import ConfigException
from penstock.connect.connector import ConnectError, Connector, RetriableError
from penstock.connect.runtime import spark_runner
from penstock.connect.runtime.connector_runs import ConnectorRuns, Moved
from penstock.connect.runtime.runner import Execution, Report, State
from penstock.connect.runtime.spark_jobs import JobCancelled, SparkJobs, TaskFailed, TaskFailure
from penstock.connect.runtime.spark_runner import SparkRunner
from penstock.core.error_table import Retry
from penstock.core.errors import BrokerUnreachable, ProtocolError

FILE = {"connector.class": "FileStreamSource", "file": "lines.txt", "topic": "lines"}


def no_spark() -> Any:
    raise AssertionError("Spark is not needed")


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> SparkRunner:
    monkeypatch.setattr(spark_runner, "_FIRST_PAUSE_S", 0.0)
    return SparkRunner({"bootstrap.servers": "127.0.0.1:1"}, SparkJobs(no_spark))


class Lives:
    """Runs of a connector: each does what the script says next, and the last one stops it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, runner: SparkRunner) -> None:
        self._runner = runner
        self._script: Iterator[Any] = iter(())
        self.reports: list[Report] = []
        self.stop = threading.Event()
        monkeypatch.setattr(ConnectorRuns, "run", self._run)

    def _run(
        self,
        _connector: Connector,
        _execution: Execution,
        *,
        started: Callable[[], None],
        moved: Callable[[Moved], None],
    ) -> None:
        for step in self._script:
            match step:
                case "started":
                    started()
                case "moved":
                    moved(Moved(10, 100, 1, ["lines"]))
                case Exception():
                    raise step
        self.stop.set()

    def follow(self, *script: Any) -> None:
        self._script = iter(script)
        self._runner.run(Execution("tail", FILE, 2, self.reports.append, self.stop))

    def states(self, task: int | None) -> list[State]:
        return [report.state for report in self.reports if report.task == task]


@pytest.fixture
def lives(monkeypatch: pytest.MonkeyPatch, runner: SparkRunner) -> Lives:
    return Lives(monkeypatch, runner)


def test_what_may_pass_is_tried_again_and_says_why(lives: Lives) -> None:
    lives.follow("started", BrokerUnreachable("nobody answers"), "started", RetriableError("busy"), "started")
    assert lives.states(0) == lives.states(1)
    assert lives.states(0) == [
        State.RUNNING,
        State.RESTARTING,
        State.RUNNING,
        State.RESTARTING,
        State.RUNNING,
    ]
    first, second = (each for each in lives.reports if each.state is State.RESTARTING and each.task is None)
    assert first.details is not None
    assert second.details is not None
    assert (first.details["attempt"], first.details["cause"]) == (1, "nobody answers")
    assert first.details["condition"] == "PENSTOCK_BROKER_UNREACHABLE"
    assert (second.details["attempt"], second.details["condition"]) == (2, None)


def test_progress_ends_the_count_of_attempts(lives: Lives) -> None:
    lives.follow(RetriableError("a"), "started", "moved", RetriableError("b"), "started")
    attempts = [each.details["attempt"] for each in lives.reports if each.state is State.RESTARTING and each.details]
    assert set(attempts) == {1}


def test_what_a_person_must_change_fails_the_tasks_with_a_trace(lives: Lives) -> None:
    lives.follow("started", ConnectError("the table is gone; create it"))
    assert lives.states(None) == [State.RUNNING, State.RUNNING]
    assert lives.states(0)[-1] is lives.states(1)[-1] is State.FAILED
    assert lives.reports[-1].trace is not None
    assert "the table is gone; create it" in lives.reports[-1].trace


def test_a_connector_that_does_not_start_fails_without_tasks(lives: Lives) -> None:
    lives.follow(ConfigException("Invalid value x"))
    assert lives.states(None) == [State.RUNNING, State.FAILED]
    assert lives.states(0) == []


def test_a_task_that_failed_shows_its_own_trace(lives: Lives) -> None:
    lives.follow("started", TaskFailed(TaskFailure("bad", "the trace of the task", None, Retry.NEVER)))
    assert lives.reports[-1] == Report(State.FAILED, 1, "the trace of the task")


def test_some_failures_are_tried_a_few_times_only(lives: Lives) -> None:
    lives.follow("started", *(ProtocolError("odd") for _ in range(100)))
    assert lives.states(0).count(State.RESTARTING) == 10
    assert lives.states(0)[-1] is State.FAILED


def test_a_stopped_connector_reports_no_failure(lives: Lives) -> None:
    lives.stop.set()
    lives.follow("started", JobCancelled("stopped"))
    assert lives.states(None) == [State.RUNNING]


def test_totals_are_reported(lives: Lives) -> None:
    lives.follow("started", "moved", "moved")
    assert lives.reports[-1].details == {"records": 20, "bytes": 200, "failed": 2}


def test_tasks_are_as_many_as_the_connector_can_use(runner: SparkRunner) -> None:
    assert runner.task_count("tail", {**FILE, "tasks.max": "8"}) == 1
    assert runner.task_count("copy", {"connector.class": "FileStreamSink", "tasks.max": "8"}) == 8
    with pytest.raises(ConfigException, match=r"tasks\.max"):
        runner.task_count("tail", {**FILE, "tasks.max": "0"})
    with pytest.raises(ConfigException, match=r"FileStreamSauce"):
        runner.task_count("tail", {**FILE, "connector.class": "FileStreamSauce"})

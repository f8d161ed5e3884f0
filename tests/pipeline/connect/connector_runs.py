"""Connectors run in threads of a test, on its Spark session, and what they report."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from pyspark.sql import SparkSession

from penstock.connect.runtime.runner import Execution, Report, State
from penstock.connect.runtime.spark_jobs import SparkJobs
from penstock.connect.runtime.spark_runner import SparkRunner
from tests.pipeline.connect.worker_process import worker_config

PATIENCE_S: Final = 120.0


class RunningConnector:
    def __init__(self, runner: SparkRunner, name: str, config: Mapping[str, str]) -> None:
        self.name = name
        self.config = config
        self.reports: list[Report] = []
        self.topics: set[str] = set()
        self._changed = threading.Condition()
        self._stop = threading.Event()
        execution = Execution(
            name, config, runner.task_count(name, config), self._report, self._stop, self.topics.update
        )
        self._thread = threading.Thread(target=runner.run, args=(execution,), name=name)
        self._thread.start()

    def _report(self, report: Report) -> None:
        with self._changed:
            self.reports.append(report)
            self._changed.notify_all()

    def wait_until(self, is_there: Callable[[list[Report]], bool]) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: is_there(self.reports), PATIENCE_S), self.reports

    def wait_for_records(self, count: int) -> None:
        """All that were moved, with those that were moved again."""
        self.wait_until(lambda reports: any(_details(each).get("records", 0) >= count for each in reports))

    def wait_for_state(self, state: State, *, task: int | None = None) -> Report:
        self.wait_until(lambda reports: any(each.state is state and each.task == task for each in reports))
        return next(each for each in self.reports if each.state is state and each.task == task)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(PATIENCE_S)
        assert not self._thread.is_alive()


def _details(report: Report) -> Mapping[str, Any]:
    return report.details or {}


class Worker:
    def __init__(self, jobs: SparkJobs, servers: str, **config: str) -> None:
        named = {name.replace("_", "."): value for name, value in config.items()}
        self.runner = SparkRunner(worker_config(servers, named), jobs)

    @contextmanager
    def running(self, name: str, config: Mapping[str, str]) -> Iterator[RunningConnector]:
        connector = RunningConnector(self.runner, name, config)
        try:
            yield connector
        finally:
            connector.stop()


def jobs_of(session: SparkSession) -> SparkJobs:
    return SparkJobs(lambda: session)

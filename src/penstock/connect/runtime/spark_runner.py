"""Runs connectors on Spark, with retries: the `Runner` of a worker.

Owns the states of a running connector, and when a failed one is tried again. It must not know how records are moved
(`sink_run.py`, `source_run.py`), nor where states are stored.

Invariant: `run` returns when the connector is stopped or has failed for good, and raises nothing.
"""

from __future__ import annotations

import random
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from penstock.connect.config.definition import ConfigException
from penstock.connect.connector import Connector, SinkConnector, SourceConnector, SourceOffset, SourcePartition
from penstock.connect.plugins import BrokenPlugin, Plugins, UnknownPlugin, WrongInterface
from penstock.connect.runtime.client_settings import WorkerProperties
from penstock.connect.runtime.connector_offsets import ConnectorOffsets
from penstock.connect.runtime.connector_runs import ConnectorRuns, Moved
from penstock.connect.runtime.runner import Execution, Report, SinkOffsets, SourceOffsets, State
from penstock.connect.runtime.spark_jobs import JobCancelled, SparkJobs, TaskFailed, retry_of
from penstock.connect.storage.offset_file import OffsetFile
from penstock.core.error_table import Retry
from penstock.core.errors import PenstockError
from penstock.core.ids import TopicPartition

_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0
_ATTEMPTS_MAX: Final = 10
"""Without progress, of what is tried a few times."""


class SparkRunner:
    """`worker` has the worker's properties. Any thread may call it; each connector runs in a thread of its own.

    `offset_file` is that of a standalone worker: its sources have their offsets there, and no exactly-once support.
    """

    def __init__(
        self,
        worker: Mapping[str, str],
        jobs: SparkJobs,
        plugins: Plugins | None = None,
        offset_file: OffsetFile | None = None,
    ) -> None:
        if offset_file is not None:
            worker = {**worker, "exactly.once.source.support": "disabled"}
        self._settings = WorkerProperties(worker)
        self._plugins = plugins or Plugins()
        self._runs = ConnectorRuns(self._settings, jobs, offset_file)
        self._offsets = ConnectorOffsets(self._settings, offset_file)

    # Running

    def run(self, execution: Execution) -> None:
        _Life(execution, lambda: self._connector(execution.name, execution.config), self._runs).run()

    def task_count(self, name: str, config: Mapping[str, str]) -> int:
        most = _tasks_max(config)
        return max(1, min(most, self._connector(name, config).task_count(most)))

    def fence(self, name: str, config: Mapping[str, str], task_count: int) -> None:
        if self._settings.exactly_once_sources and issubclass(self._class(config), SourceConnector):
            self._offsets.fence(name, self._completed(config), task_count)

    # Offsets

    def offsets(self, name: str, config: Mapping[str, str]) -> SinkOffsets | SourceOffsets:
        connector = self._connector(name, config)
        if isinstance(connector, SinkConnector):
            with closing(connector):
                return self._offsets.of_sink(connector)
        return self._offsets.of_source(name, self._completed(config))

    def alter_offsets(
        self,
        name: str,
        config: Mapping[str, str],
        offsets: Mapping[TopicPartition, int | None] | Sequence[tuple[SourcePartition, SourceOffset | None]] | None,
    ) -> str:
        connector = self._connector(name, config)
        if isinstance(connector, SinkConnector):
            assert offsets is None or isinstance(offsets, Mapping)
            with closing(connector):
                self._offsets.alter_sink(connector, offsets)
        else:
            assert isinstance(connector, SourceConnector)
            assert offsets is None or not isinstance(offsets, Mapping)
            if offsets is not None:
                connector.check_offsets(config, offsets)
            self._offsets.alter_source(name, self._completed(config), offsets, self.task_count(name, config))
        return f"The offsets for this connector have been {'reset' if offsets is None else 'altered'} successfully"

    def _connector(self, name: str, config: Mapping[str, str]) -> Connector:
        return self._class(config)(name, config)

    def _completed(self, config: Mapping[str, str]) -> Mapping[str, str]:
        return self._class(config).completed(config)

    def _class(self, config: Mapping[str, str]) -> type[Connector]:
        java_class = config.get("connector.class", "").strip()
        if not java_class:
            raise ConfigException(
                'Missing required configuration "connector.class" which has no default value.', "connector.class"
            )
        try:
            found: type[Connector] = self._plugins.load("Connector", java_class).implementation
        except (UnknownPlugin, WrongInterface, BrokenPlugin) as unknown:
            raise ConfigException(
                f"Failed to find any class that implements Connector and which name matches {java_class}: {unknown}",
                "connector.class",
            ) from unknown
        return found


@contextmanager
def closing(connector: Connector) -> Iterator[None]:
    """For a connector that was not started: its ledger may have opened a connection."""
    try:
        yield
    finally:
        connector.stop()


class _Life:
    """One execution, over all of its attempts."""

    def __init__(self, execution: Execution, make: Callable[[], Connector], runs: ConnectorRuns) -> None:
        self._execution = execution
        self._make = make
        self._runs = runs
        self._attempt = 0
        self._is_started = False
        self._totals = {"records": 0, "bytes": 0, "failed": 0}

    def run(self) -> None:
        execution = self._execution
        self._report(State.RUNNING, connector_only=True)
        while not execution.stop.is_set():
            try:
                connector = self._make()
                self._runs.run(connector, execution, started=self._started, moved=self._moved)
                return
            except JobCancelled:
                if execution.stop.is_set():
                    return
                self._retry(JobCancelled("a person or Spark cancelled the job"), Retry.UNTIL_IT_RETURNS)
            except Exception as error:  # a boundary: a connector's code may raise anything
                if execution.stop.is_set():
                    return
                retry = retry_of(error)
                may_pass = retry is Retry.UNTIL_IT_RETURNS or (
                    retry is Retry.A_FEW_TIMES and self._attempt < _ATTEMPTS_MAX
                )
                if not may_pass:
                    self._failed(error)
                    return
                self._retry(error, retry)

    def _started(self) -> None:
        self._is_started = True
        self._report(State.RUNNING)

    def _moved(self, moved: Moved) -> None:
        if self._attempt:
            self._attempt = 0
        for name in self._totals:
            self._totals[name] += getattr(moved, name)
        details: dict[str, Any] = dict(self._totals)
        if moved.lag is not None:
            details["lag"] = moved.lag
        if moved.topics:
            self._execution.topics_used(moved.topics)
        self._execution.report(Report(State.RUNNING, details=details))

    def _retry(self, error: Exception, retry: Retry) -> None:
        self._attempt += 1
        pause_s = min(_FIRST_PAUSE_S * 2 ** (self._attempt - 1), _LONGEST_PAUSE_S)
        pause_s *= random.uniform(0.8, 1.0)  # noqa: S311 (so that connectors that failed together do not retry together)
        details = {
            "attempt": self._attempt,
            "cause": _cause(error),
            "condition": _condition(error),
            "next_attempt_ms": int((time.time() + pause_s) * 1000),
        }
        self._report(State.RESTARTING, trace=_trace(error), details=details)
        self._execution.stop.wait(pause_s)

    def _failed(self, error: Exception) -> None:
        trace = _trace(error)
        if not self._is_started:
            self._execution.report(Report(State.FAILED, trace=trace))
            return
        for task in range(self._execution.task_count):
            self._execution.report(Report(State.FAILED, task, trace))

    def _report(
        self,
        state: State,
        *,
        trace: str | None = None,
        details: Mapping[str, Any] | None = None,
        connector_only: bool = False,
    ) -> None:
        self._execution.report(Report(state, None, trace, details))
        if not connector_only:
            for task in range(self._execution.task_count):
                self._execution.report(Report(state, task, trace, details))


def _cause(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _condition(error: Exception) -> str | None:
    if isinstance(error, TaskFailed):
        return error.failure.condition
    return error.entry.condition if isinstance(error, PenstockError) else None


def _trace(error: Exception) -> str:
    if isinstance(error, TaskFailed) and error.failure.trace:
        return error.failure.trace
    return "".join(traceback.format_exception(error))


def _tasks_max(config: Mapping[str, str]) -> int:
    text = config.get("tasks.max", "1").strip()
    if not text.isdecimal() or int(text) < 1:
        raise ConfigException(
            f"Invalid value {text} for configuration tasks.max: Value must be at least 1", "tasks.max"
        )
    return int(text)

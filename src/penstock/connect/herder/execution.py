"""One life of a connector on this worker: a thread that prepares it, runs it, and reports how it is.

Owns the thread and the order of a start: task configs, then fencing (KIP-618), then the runner. It must not decide when
to start or stop; `executions.py` does.

Invariant: nothing that the runner reports after `stop` becomes a status: a connector that moves away belongs to others.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from penstock.connect.herder.cluster_view import ClusterView
from penstock.connect.herder.herder import ConnectorType
from penstock.connect.herder.status_writer import StatusWriter
from penstock.connect.runtime.runner import Execution, Report, Runner, State
from penstock.connect.storage.config_records import TaskConfig, TaskCount, TasksCommit, encode
from penstock.connect.storage.json_values import KeyValue
from penstock.connect.storage.status_records import Status, TopicUse
from penstock.connect.storage.table import Table
from penstock.core.error_table import Retry
from penstock.core.errors import PenstockError
from penstock.protocol.error_codes import BrokerError

_RETRY_PAUSE_S_MAX: Final = 60.0
_ENDED: Final = "the connector ended without a report; its worker's log has more"


@dataclass(frozen=True, slots=True)
class WorkerParts:
    """What all executions of a worker share. The lock guards the view."""

    worker_id: str
    view: ClusterView
    view_lock: threading.RLock
    configs: Table
    statuses: StatusWriter
    runner: Runner
    resolve: Callable[[Mapping[str, str]], Mapping[str, str]]
    connector_type: Callable[[Mapping[str, str]], ConnectorType]
    connector_version: Callable[[Mapping[str, str]], str | None]
    tracks_topics: bool = True


class ConnectorExecution:
    """`config` is the connector's as the config topic has it. `may_run` says whether this worker still owns it."""

    def __init__(
        self,
        parts: WorkerParts,
        name: str,
        config: Mapping[str, str],
        generation: int,
        may_run: Callable[[], bool],
        on_end: Callable[[], None],
    ) -> None:
        self.name = name
        self.config = config
        self.has_failed = False
        self._parts = parts
        self._generation = generation
        self._version = parts.connector_version(config)
        self._may_run = may_run
        self._on_end = on_end
        self._stop = threading.Event()
        self._ended = threading.Event()
        self._task_count = 0
        self._task_reports: dict[int, State] = {}
        self._thread = threading.Thread(target=self._run, name=f"connector {name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        return not self._ended.is_set()

    @property
    def is_stopping(self) -> bool:
        return self._stop.is_set()

    def stop(self) -> None:
        self._stop.set()

    def join(self, timeout_s: float) -> bool:
        """Whether it has ended."""
        return self._ended.wait(timeout_s)

    # In the thread

    def _run(self) -> None:
        try:
            config = self._prepared()
            if config is not None:
                self._parts.runner.run(
                    Execution(self.name, config, self._task_count, self._report, self._stop, self._note_topics)
                )
            if not self._stop.is_set() and not self.has_failed:
                self._report(Report(State.FAILED, trace=_ENDED))
        except Exception:  # the boundary of a connector
            self._report(Report(State.FAILED, trace=traceback.format_exc()))
        finally:
            self._ended.set()
            self._on_end()

    def _prepared(self) -> Mapping[str, str] | None:
        """The config with its secrets, when all is ready for a start. None: it was stopped before."""
        attempt = 0
        while not self._stop.is_set():
            try:
                config = self._parts.resolve(self.config)
                self._prepare(config)
            except PenstockError as error:
                if error.entry.retry is Retry.NEVER and not _is_passing(error):
                    raise
                attempt += 1
                pause_s = min(2.0 ** (attempt - 1), _RETRY_PAUSE_S_MAX)
                details = {"attempt": attempt, "cause": str(error), "condition": error.entry.condition}
                details["next_attempt_ms"] = int((time.time() + pause_s) * 1000)
                self._report(Report(State.RESTARTING, trace=traceback.format_exc(), details=details))
                self._stop.wait(pause_s)
                continue
            return None if self._stop.is_set() else config
        return None

    def _prepare(self, config: Mapping[str, str]) -> None:
        self._task_count = self._parts.runner.task_count(self.name, config)
        self._publish_tasks()
        self._forget_other_tasks()
        if self._parts.connector_type(self.config) == "source":
            self._fence(config)

    def _publish_tasks(self) -> None:
        """Every task of ours has the connector's config. REST shows them, and Kafka's workers would start from them."""

        def tasks() -> tuple[Mapping[str, str], ...]:
            return (self.config,) * self._task_count

        def decide() -> Sequence[KeyValue]:
            with self._parts.view_lock:
                is_current = self._parts.view.config(self.name) == self.config
            if not is_current or not self._may_run():
                self._stop.set()
                return ()
            configs = [encode(TaskConfig(self.name, task, config)) for task, config in enumerate(tasks())]
            return [*configs, encode(TasksCommit(self.name, self._task_count))]

        with self._parts.view_lock:
            known = self._parts.view.task_configs(self.name)
        # Kafka's workers add `task.class`; what else they say is the same.
        if [_without_task_class(each) for each in known] != [dict(each) for each in tasks()]:
            self._parts.configs.transact(decide)

    def _forget_other_tasks(self) -> None:
        with self._parts.view_lock:
            known = [task for task in self._parts.view.statuses(self.name) if task is not None]
        gone = [Status(self.name, task, State.DESTROYED) for task in known if task >= self._task_count]
        if not self._stop.is_set():
            self._parts.statuses.put(*gone)

    def _fence(self, config: Mapping[str, str]) -> None:
        with self._parts.view_lock:
            before = self._parts.view.fenced_tasks(self.name)
        self._parts.runner.fence(self.name, config, max(before, self._task_count))
        if before != self._task_count and self._may_run():
            record = encode(TaskCount(self.name, self._task_count))
            self._parts.configs.transact(lambda: [record] if self._may_run() else [])

    def _report(self, report: Report) -> None:
        if self._stop.is_set():
            return
        if report.state is State.FAILED:
            self.has_failed = True
        if report.task is not None:
            self._task_reports[report.task] = report.state
            self._parts.statuses.put(self._status(report, report.task))
            return
        self._parts.statuses.put(self._status(report, None))
        # A runner that says nothing of a task says the same of it as of the connector; tasks of a failed one are idle.
        of_tasks = Report(State.UNASSIGNED) if report.state is State.FAILED else report
        for task in range(self._task_count):
            if task not in self._task_reports or self._task_reports[task] is not State.FAILED:
                self._parts.statuses.put(self._status(of_tasks, task))

    def _status(self, report: Report, task: int | None) -> Status:
        return Status(
            self.name,
            task,
            report.state,
            worker_id=self._parts.worker_id,
            generation=self._generation,
            trace=report.trace,
            version=self._version,
            details=dict(report.details or {}),
        )

    def _note_topics(self, topics: Sequence[str]) -> None:
        if not self._parts.tracks_topics or self._stop.is_set():
            return
        with self._parts.view_lock:
            new = set(topics) - self._parts.view.topics(self.name)
        now_ms = int(time.time() * 1000)
        self._parts.statuses.put(*(TopicUse(self.name, topic, 0, now_ms) for topic in sorted(new)))


def _is_passing(error: PenstockError) -> bool:
    return isinstance(error, BrokerError) and error.code.retriable


def _without_task_class(config: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in config.items() if name != "task.class"}

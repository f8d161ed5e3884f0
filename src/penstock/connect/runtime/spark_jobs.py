"""Runs task descriptions as jobs of one Spark, which all connectors of a worker share.

Spark starts at the first job. Many threads may run jobs at the same time, each under the group of its connector, by
which a job is cancelled.

Owns the way of a task into a Python process of Spark's, and the way of its result or failure back. It must not know
what tasks do.

Invariant: a task runs once. A failure of ours is a result for Spark, which so has no reason for another attempt; an
attempt that Spark makes because a process died does nothing, and the job fails. What a task did before it died is
unknown, and only the connector's loop can find out.
"""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from penstock.connect.connector import ConnectError, RetriableError
from penstock.connect.errors.tolerance import ToleranceExceeded
from penstock.core.error_table import Retry
from penstock.core.errors import PenstockError
from penstock.pipeline.spark.session import discard, is_usable
from penstock.pipeline.spark.task_attempt import attempt_number

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Task = TypeVar("Task")
Result = TypeVar("Result")

INTERRUPTED: Final = "PENSTOCK_ENGINE_LOST"
_POOL: Final = "spark.scheduler.pool"
_PATIENCE: Final = (Retry.NEVER, Retry.IF_CHECKPOINT_OWNED, Retry.A_FEW_TIMES, Retry.UNTIL_IT_RETURNS)
_GRACE_S: Final = 10.0
_LOOK_S: Final = 0.5


class JobInterrupted(RetriableError):
    """A process of Spark's ended while it ran a task, or Spark itself did. The work is planned and run again."""


class JobCancelled(Exception):
    """The connector was told to stop, and its job took too long to end by itself."""


@dataclass(frozen=True, slots=True)
class TaskFailure:
    """What a task raised, in a form that crosses processes. `condition` is None for errors that are not ours."""

    message: str
    trace: str
    condition: str | None = None
    retry: Retry = Retry.NEVER

    @classmethod
    def of(cls, error: Exception) -> TaskFailure:
        condition = error.entry.condition if isinstance(error, PenstockError) else None
        trace = error.trace if isinstance(error, ToleranceExceeded) else "".join(traceback.format_exception(error))
        return cls(str(error) or type(error).__name__, trace, condition, retry_of(error))


class TaskFailed(Exception):
    """A task of a job failed."""

    def __init__(self, failure: TaskFailure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def retry_of(error: BaseException) -> Retry:
    """Whether the same work may succeed later, without a person who acts."""
    match error:
        case TaskFailed():
            return error.failure.retry
        case ConnectError():
            return Retry.NEVER
        case RetriableError() | ConnectionError() | TimeoutError():
            return Retry.UNTIL_IT_RETURNS
        case PenstockError():
            return error.entry.retry
    return Retry.NEVER


class SparkJobs:
    def __init__(self, start_spark: Callable[[], SparkSession]) -> None:
        """`start_spark` is called by the first job, and again if Spark is lost."""
        self._start_spark = start_spark
        self._starting = threading.Lock()
        self._session: SparkSession | None = None
        self._empty: dict[int, Any] = {}
        self._watching = threading.Lock()
        self._running: dict[str, threading.Event] = {}
        self._watcher: threading.Thread | None = None

    @property
    def is_started(self) -> bool:
        return self._session is not None

    def start(self) -> SparkSession:
        with self._starting:
            if self._session is None:
                self._session = self._start_spark()
            return self._session

    def run(
        self,
        group: str,
        function: Callable[[Task], Result],
        tasks: Sequence[Task],
        stop: threading.Event | None = None,
    ) -> list[Result]:
        """One job with a task for each description; results are in their order. Waits for all tasks.

        `function` is a function of a module, and tasks and results are pickled: they name work, and contain no records.
        A job that still runs some time after `stop` is cancelled. Raises TaskFailed, JobInterrupted, JobCancelled.
        """
        if not tasks:
            return []
        session = self.start()
        context = session.sparkContext
        job = _Job(function, tuple(tasks))
        self._watch(group, stop)
        try:
            # Both are properties of this thread in the JVM. A fair pool of its own where the scheduler has such pools.
            context.setJobGroup(group, f"connector {group}", interruptOnCancel=False)
            context.setLocalProperty(_POOL, group)
            collected = self._slots(len(tasks)).mapPartitionsWithIndex(job).collect()
        except Exception as error:
            self._discard_if_lost(session)
            raise _spark_failure(error) from error
        finally:
            with self._watching:
                self._running.pop(group, None)
        outcomes = dict(collected)
        failures = [each for each in outcomes.values() if isinstance(each, TaskFailure)]
        if failures:
            # A failure that stays decides: the others would only delay it.
            raise TaskFailed(min(failures, key=lambda failure: _PATIENCE.index(failure.retry)))
        return [cast("Result", outcomes[number]) for number in range(len(tasks))]

    def cancel(self, group: str) -> None:
        """Ends the group's running job; its tasks' processes are killed after `spark.python.task.killTimeout`."""
        if self._session is not None:
            with contextlib.suppress(Exception):  # Spark may just have been lost, and its jobs with it
                self._session.sparkContext.cancelJobGroup(group)

    def close(self) -> None:
        """Stops Spark, if it was started, and with it all jobs."""
        with self._starting:
            session, self._session = self._session, None
            self._empty.clear()
            if session is not None and is_usable(session):
                session.stop()

    def _watch(self, group: str, stop: threading.Event | None) -> None:
        if stop is None:
            return
        with self._watching:
            self._running[group] = stop
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._cancel_late_jobs, name="connect-jobs", daemon=True)
                self._watcher.start()

    def _cancel_late_jobs(self) -> None:
        """In a thread of its own, as long as there are jobs: their own threads wait for Spark."""
        stopped_at: dict[str, float] = {}
        while True:
            time.sleep(_LOOK_S)
            with self._watching:
                if not self._running:
                    self._watcher = None
                    return
                stopped = {group for group, stop in self._running.items() if stop.is_set()}
            stopped_at = {group: stopped_at.get(group, time.monotonic()) for group in stopped}
            for group, since in stopped_at.items():
                if time.monotonic() - since >= _GRACE_S:
                    self.cancel(group)

    def _discard_if_lost(self, session: SparkSession) -> None:
        """Spark's JVM may have died, or a cluster may have removed the application. The next job starts it again."""
        with self._starting:
            if self._session is session and not is_usable(session):
                self._session = None
                self._empty.clear()
                discard(session)

    def _slots(self, count: int) -> Any:
        """An RDD without data: task descriptions travel with the function, which saves a file for each job."""
        with self._starting:
            if count not in self._empty:
                assert self._session is not None
                self._empty[count] = self._session.sparkContext.parallelize((), count)
            return self._empty[count]


class _Job:
    """What Spark calls for each of its tasks."""

    def __init__(self, function: Callable[[Any], Any], tasks: Sequence[Any]) -> None:
        self._function = function
        self._tasks = tasks

    def __call__(self, number: int, rows: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        for _none in rows:  # Spark keeps the Python process for the next task only if its input was read to the end
            pass
        yield number, run_task(self._function, self._tasks[number], attempt_number())


def run_task(function: Callable[[Task], Result], task: Task, attempt: int) -> Result | TaskFailure:
    if attempt > 0:
        return TaskFailure(
            "a process of Spark's ended while it ran a task of the job", "", INTERRUPTED, Retry.UNTIL_IT_RETURNS
        )
    try:
        return function(task)
    except Exception as error:
        return TaskFailure.of(error)


def _spark_failure(error: Exception) -> Exception:
    text = str(error)
    if "cancelled" in text or "canceled" in text:
        return JobCancelled("the job was cancelled")
    line = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return JobInterrupted(f"Spark could not run a job: {line}")

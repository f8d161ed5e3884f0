"""What a query does between its reports, for a person who waits: the tasks of a batch, that all is done, what is away.

Owns when each of these is reported, and how often. `spark/internals.py` asks Spark, `reachability.py` the brokers.

Invariant: a look costs nothing more often than once a second, and a failed look is no reason to stop anything.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from penstock.pipeline.progress import BatchProgress
from penstock.pipeline.reachability import BrokerWatch
from penstock.pipeline.run_settings import Event
from penstock.pipeline.spark import internals

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_EVERY_S: Final = 1.0
EXECUTOR_PATIENCE_S: Final = 10.0
_NO_EXECUTORS: Final = (
    "the Spark cluster has given this pipeline no executor; check that its workers run and have free cores and memory"
)


class Activity:
    """Of one pipeline, over the restarts of its query. `report` gets the events batch, idle, waiting and resumed."""

    def __init__(
        self,
        report: Callable[[Event], None],
        brokers: Sequence[BrokerWatch] = (),
        clock: Callable[[], float] = time.monotonic,
        *,
        ends_when_idle: bool = False,
    ) -> None:
        self._report = report
        self._brokers = tuple(brokers)
        self._clock = clock
        self._next_look = clock() + LOOK_EVERY_S
        self._batch_id = -1  # the last one that was reported
        self._is_caught_up = False
        self._is_idle_told = False
        self._ends_when_idle = ends_when_idle  # and then there is nothing to tell
        self._away: str | None = None
        self._without_executors_since: float | None = None

    def batch_done(self, batch: BatchProgress) -> None:
        self._batch_id = batch.batch_id
        # Sources that are no topics have no lag, and say nothing by it.
        self._is_caught_up = bool(batch.lag) and not any(batch.lag.values())
        self._is_idle_told = False
        self._next_look = self._clock() + LOOK_EVERY_S

    def found_nothing(self) -> None:
        """A trigger for which there was nothing to do."""
        self._is_caught_up = True

    def look(self, query: StreamingQuery) -> None:
        now = self._clock()
        if now < self._next_look:
            return
        self._next_look = now + LOOK_EVERY_S
        is_between_batches = internals.is_between_batches(query)
        tasks = None if is_between_batches else internals.running_tasks(query)
        self._tell_what_is_away(self._missing(tasks, now))
        if self._away is not None:
            return
        if tasks is not None:
            self._is_idle_told = False
            batch = self._batch_id + 1 if self._batch_id >= 0 else None
            self._report({"event": "batch", "batch": batch, "tasks": tasks.tasks, "tasks_done": tasks.done})
        elif is_between_batches and self._is_caught_up and not (self._is_idle_told or self._ends_when_idle):
            self._is_idle_told = True
            self._report({"event": "idle", "lag": 0})

    def close(self) -> None:
        for brokers in self._brokers:
            brokers.close()

    def _missing(self, tasks: internals.RunningTasks | None, now: float) -> str | None:
        for brokers in self._brokers:
            reason = brokers.look()
            if reason is not None:
                return reason
        if tasks is None or tasks.has_executors:
            self._without_executors_since = None
            return None
        self._without_executors_since = self._without_executors_since or now
        return _NO_EXECUTORS if now - self._without_executors_since >= EXECUTOR_PATIENCE_S else None

    def _tell_what_is_away(self, reason: str | None) -> None:
        if reason == self._away:
            return
        self._away = reason
        if reason is not None:
            self._report({"event": "waiting", "reason": reason})
        else:
            self._is_idle_told = False
            self._report({"event": "resumed"})

"""Keeps a query running: follows it, starts it again from its checkpoint, and says how it ended.

Owns when a failed query is tried again and when the pipeline ends, and how a stop leaves whole batches behind. It must
never know what the query does.

A query is stopped between batches. Spark's own `stop` breaks off the batch that runs, which no guarantee forbids, but
which at_least_once answers with repeats and at_most_once with loss; so this waits for the moment in which Spark asks
its sources for news.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from penstock.core.error_table import ERRORS, Retry
from penstock.core.exit_codes import ExitCode
from penstock.pipeline.activity import Activity
from penstock.pipeline.failure import Classification, PipelineFailed, classify
from penstock.pipeline.progress import BatchProgress, Tally
from penstock.pipeline.reachability import BrokerWatch
from penstock.pipeline.run_settings import Event, RunSettings
from penstock.pipeline.spark import internals
from penstock.pipeline.spark.conditions import SPARK_ENDED
from penstock.pipeline.spark.messages import explain_sql, quiet_pyspark

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

ATTEMPTS_WITHOUT_PROGRESS: Final = 4
_POLL_S: Final = 0.1
FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 30.0
_OWNER_CHECK_S: Final = 5.0
_STOP_POLL_S: Final = 0.002
_STOP_PATIENCE_S: Final = 120.0
_TAKEN_OVER: Final = Classification.of(
    "another run of this pipeline has taken over; this one stops", ERRORS["PENSTOCK_SINK_FENCED"]
)


class Supervisor:
    """`start` starts the query from its checkpoint, as often as it is called. `owns_checkpoint`: no later run has taken
    that over. A run that has lost it ends, also when its sink would not notice or has nothing to write; the one that
    has it is not stopped by what the other wrote last."""

    def __init__(
        self,
        name: str,
        start: Callable[[], StreamingQuery],
        settings: RunSettings,
        on_batch: Callable[[BatchProgress], None],
        *,
        ends_by_itself: bool = False,
        passes: int = 1,
        first_pause_s: float = FIRST_PAUSE_S,
        owns_checkpoint: Callable[[], bool] = lambda: True,
        owner_check_s: float = _OWNER_CHECK_S,
        brokers: Sequence[BrokerWatch] = (),
        tally: Tally | None = None,
    ) -> None:
        self._name = name
        self._start = start
        self._settings = settings
        self._on_batch = on_batch
        self._passes = passes
        self._first_pause_s = first_pause_s
        self._ends_by_itself = ends_by_itself
        self._owns_checkpoint = owns_checkpoint
        self._owner_check_s = owner_check_s
        self._fruitless = 0
        self._activity = Activity(self._report, brokers, ends_when_idle=settings.once or ends_by_itself)
        self.tally = Tally() if tally is None else tally

    def run(self) -> None:
        """Returns when the query has ended by itself or was asked to. Raises PipelineFailed when it cannot go on."""
        try:
            self._run()
        finally:
            self._activity.close()

    def _run(self) -> None:
        while not self._settings.stop.is_set():
            failure = self._run_once()
            if failure is None:
                return
            self._fruitless += 1
            if not self._tries_again(failure.retry):
                raise failure.failure()
            pause_s = min(self._first_pause_s * 2 ** (self._fruitless - 1), _LONGEST_PAUSE_S)
            self._report(
                {"event": "restarting", "reason": failure.line, "condition": failure.condition, "in_seconds": pause_s}
            )
            self._settings.stop.wait(pause_s)

    def _tries_again(self, retry: Retry) -> bool:
        if retry is Retry.NEVER or (retry is Retry.IF_CHECKPOINT_OWNED and not self._owns_checkpoint()):
            return False
        waits = retry is Retry.UNTIL_IT_RETURNS and not self._settings.once
        return waits or self._fruitless < ATTEMPTS_WITHOUT_PROGRESS

    def _run_once(self) -> Classification | None:
        """None: it ended well."""
        from pyspark.errors import AnalysisException

        with quiet_pyspark():
            try:
                query = self._start()
                return self._follow(query)
            except PipelineFailed:
                raise
            except AnalysisException as refusal:
                raise PipelineFailed(explain_sql(refusal).message, ExitCode.INVALID_SQL) from refusal
            except Exception as failure:  # a start that fails is a failure as any other
                if internals.is_jvm_lost(failure):
                    raise PipelineFailed(SPARK_ENDED.line, ExitCode.ENGINE_LOST) from None
                return classify(failure)

    def _follow(self, query: StreamingQuery) -> Classification | None:
        next_check = time.monotonic() + self._owner_check_s
        while True:
            ended = _ended(query, _POLL_S)
            self._take_progress(query)
            if ended is not None:
                return ended.failure or self._end_of_its_own()
            if self._settings.stop.is_set():
                finish_batch(query)
                self._take_progress(query)
                return None
            self._activity.look(query)
            if time.monotonic() >= next_check:
                if not self._owns_checkpoint():
                    finish_batch(query)
                    return _TAKEN_OVER
                next_check = time.monotonic() + self._owner_check_s

    def _end_of_its_own(self) -> Classification | None:
        """Only a run with `once` ends by itself. Spark stops a query when it is started again in the same Spark,
        from the same checkpoint."""
        if self._settings.once or self._settings.stop.is_set() or self._ends_by_itself:
            return None
        return _TAKEN_OVER

    def _take_progress(self, query: StreamingQuery) -> None:
        for reported in internals.new_progress(query, self.tally.last_batch_id):
            if not reported.is_executed:
                self._activity.found_nothing()
                continue
            batch = BatchProgress.of(reported, self._passes)
            if self.tally.add(batch):
                self._fruitless = 0
                self._on_batch(batch)
                self._activity.batch_done(batch)
                self._report(self.tally.event())

    def _report(self, event: Event) -> None:
        self._settings.report({**event, "pipeline": self._name})


class _Ended:
    def __init__(self, failure: Classification | None) -> None:
        self.failure = failure


def _ended(query: StreamingQuery, timeout_s: float) -> _Ended | None:
    """None: it still runs."""
    from pyspark.errors import StreamingQueryException

    try:
        return _Ended(None) if internals.await_termination(query, timeout_s) else None
    except StreamingQueryException as failure:
        return _Ended(classify(failure))


def finish_batch(query: StreamingQuery) -> None:
    """Stops a query between two batches; breaks one off only when it takes too long."""
    deadline = time.monotonic() + _STOP_PATIENCE_S
    while query.isActive and time.monotonic() < deadline:
        if internals.is_between_batches(query):
            break
        time.sleep(_STOP_POLL_S)
    query.stop()

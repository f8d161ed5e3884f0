"""What a pipeline is doing, as data: its state in Kafka Connect's words and its figures, made of the events it reports.

The live view of `penstock run`, the table of `penstock up` and the answers of the engine all show a `PipelineStatus`.
Owns the meaning of events. It must not know Spark, sockets or screens; clocks are passed in.

    UNASSIGNED  no engine runs it
    STARTING    an engine starts it
    RUNNING     its query runs
    RESTARTING  its query failed, and starts again by itself
    FAILED      it failed, and needs a person
    STOPPED     it was stopped, or has processed all that was asked for
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final, Literal

from penstock.pipeline.run_settings import Event
from penstock.pipeline.throughput import Throughput

State = Literal["UNASSIGNED", "STARTING", "RUNNING", "RESTARTING", "FAILED", "STOPPED"]

UP_TO_DATE: Final = "up to date"
_NO_TOTAL: Final = {"rows": 0, "batches": 0, "dead_letters": 0, "dropped": 0}


class _Query:
    """One query of a pipeline: it has one for each sink."""

    def __init__(self) -> None:
        self.throughput = Throughput()
        self.progress: Event = {}
        self.activity = ""
        self.restart_reason = ""


class PipelineStatus:
    """`apply` takes the events of one pipeline, in order. Not safe for threads: its owner serialises."""

    def __init__(
        self,
        name: str,
        *,
        guarantee: str = "",
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self.guarantee = guarantee
        self.state: State = "UNASSIGNED"
        self.reason = ""  # of a restart, a failure, or a wait
        self.restarts = 0
        self._clock = clock
        self._wall_clock = wall_clock
        # By sink; a pipeline with one sink has one, without a name.
        self._queries: dict[str | None, _Query] = {}
        self._since = wall_clock()
        self._started: Event = {}
        self._failed: Event = {}
        self._total: Event | None = None  # of a run that has ended
        self._is_waiting = False

    @property
    def rows_per_second(self) -> float:
        """Every query of a pipeline with several sinks reads the sources by itself: the fastest counts."""
        return max((query.throughput.rows_per_second(self._clock()) for query in self._queries.values()), default=0.0)

    @property
    def progress(self) -> Event:
        """The last report, with the totals and the lag of all queries; empty before the first one."""
        reports = [query.progress for query in self._queries.values() if query.progress]
        if not reports:
            return {}
        last = max(reports, key=lambda report: report["at"])
        lag = max(reports, key=lambda report: report["lag"])
        return {**last, "total": self.total, "lag": lag["lag"], "lag_by_partition": lag["lag_by_partition"]}

    @property
    def total(self) -> Event:
        if self._total is not None:
            return self._total
        totals = [query.progress["total"] for query in self._queries.values() if query.progress]
        if not totals:
            return _NO_TOTAL
        most = {key: max(total[key] for total in totals) for key in ("rows", "dropped")}
        return most | {key: sum(total[key] for total in totals) for key in ("batches", "dead_letters")}

    @property
    def lag(self) -> int | None:
        return self.progress.get("lag")

    @property
    def activity(self) -> str:
        """Within RUNNING: what it does at this moment."""
        busy = [(name, query.activity) for name, query in self._queries.items() if query.activity != UP_TO_DATE]
        if not self._queries or self.state != "RUNNING":
            return ""
        if not busy:
            return UP_TO_DATE
        name, activity = busy[0]
        return f"{name}: {activity}" if name and activity else activity

    def apply(self, event: Event) -> None:
        kind = event["event"]
        sink = event.get("sink")
        if kind == "starting":
            self._become("STARTING")
        elif kind == "started":
            self.guarantee = str(event["guarantee"])
            self._started = event
            self._queries = {name: _Query() for name in event.get("sinks", [None])}
            self._total = None
            self._become("RUNNING")
        elif kind == "progress":
            query = self._query(sink)
            query.progress = {"at": self._wall_clock(), **event}
            query.throughput.add(int(event["rows"]), event["batch_ms"] / 1000, self._clock())
            # Sources that are no topics have no lag, and say nothing by it.
            self._runs(query, UP_TO_DATE if event["lag_by_partition"] and not event["lag"] else "")
        elif kind == "batch":
            query = self._query(sink)
            query.throughput.busy(self._clock())
            self._runs(query, _tasks(event))
        elif kind == "idle":
            query = self._query(sink)
            query.throughput.idle()
            self._runs(query, UP_TO_DATE)
        elif kind == "waiting":
            self.reason, self._is_waiting = str(event["reason"]), True
        elif kind == "resumed":
            self._is_waiting = False
            self.reason = ""
        elif kind == "restarting":
            self.restarts += 1
            self._query(sink).restart_reason = str(event["reason"])
            self._become("RESTARTING", str(event["reason"]))
        elif kind == "failed":
            self._failed = event
            self._become("FAILED", str(event["reason"]))
        elif kind == "stopped":
            self._total = event.get("total", self._total)
            self._become("STOPPED")

    def _query(self, sink: str | None) -> _Query:
        return self._queries.setdefault(sink, _Query())

    def _runs(self, query: _Query, activity: str) -> None:
        query.activity, query.restart_reason = activity, ""
        if self.state in ("STARTING", "RESTARTING"):
            restarting = [each.restart_reason for each in self._queries.values() if each.restart_reason]
            if restarting:
                self.reason = restarting[0]
            else:
                self._become("RUNNING")
        elif not self._is_waiting:
            self.reason = ""

    def _become(self, state: State, reason: str = "") -> None:
        if state != self.state:
            self.state, self._since = state, self._wall_clock()
        if state != "RUNNING":
            for query in self._queries.values():
                query.throughput.idle()
                query.activity = ""
        self.reason, self._is_waiting = reason, False

    def as_json(self) -> dict[str, Any]:
        last = self.progress
        return {
            "name": self.name,
            "state": self.state,
            "since": round(self._since, 3),
            "guarantee": self.guarantee or None,
            "activity": self.activity or None,
            "reason": self.reason or None,
            "condition": self._failed.get("condition") if self.state == "FAILED" else None,
            "exit_code": self._failed.get("exit_code") if self.state == "FAILED" else None,
            "problems": list(self._failed.get("problems", ())) if self.state == "FAILED" else [],
            "rows_per_second": round(self.rows_per_second, 1),
            "lag": self.lag,
            "lag_by_partition": last.get("lag_by_partition"),
            "watermark": last.get("watermark"),
            "last_batch": {key: last[key] for key in ("batch", "rows", "batch_ms", "at")} if last else None,
            "total": dict(self.total),
            "restarts": self.restarts,
            "checkpoint": self._started.get("checkpoint"),
            "run": self._started.get("run"),
        }


def _tasks(event: Event) -> str:
    """The number of a run's first batch is known when it is done."""
    batch = "first batch" if event["batch"] is None else f"batch {event['batch']}"
    return f"{batch}: {event['tasks_done']:,} of {event['tasks']:,} tasks"

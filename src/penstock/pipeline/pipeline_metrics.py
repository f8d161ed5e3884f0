"""The figures of pipelines for Prometheus, made of the events that they report.

Whoever hears the events has the figures: a `penstock run` of its own pipeline, and `penstock up` of all that it hosts,
also of those in other processes. Owns their names. It must not know Spark.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, get_args

from penstock.core.metrics import Labels, Metrics
from penstock.pipeline.run_settings import Event
from penstock.pipeline.status import PipelineStatus, State

_PREFIX: Final = "penstock_pipeline_"
# Seconds: from an idle topic's micro-batch to one that catches up with a day of records.
_BATCH_BOUNDS_S: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)

Statuses = Callable[[], Iterable[Mapping[str, Any]]]


class PipelineMetrics:
    """Any thread may call `apply`. `statuses` tells of all pipelines; without it, those that have reported."""

    def __init__(self, metrics: Metrics, statuses: Statuses | None = None) -> None:
        self._metrics = metrics
        self._own: dict[str, PipelineStatus] = {}
        self._statuses = statuses or self._own_statuses
        self._lag: dict[tuple[str, str], Mapping[str, Mapping[Any, int]]] = {}  # by pipeline and sink, then by topic
        self._changing = threading.Lock()
        metrics.gauge_reader(_PREFIX + "state", "1 for the state of the pipeline, 0 for the others.", self._states)
        metrics.gauge_reader(
            _PREFIX + "lag", "Offsets between the last committed micro-batch and the end of the log.", self._lags
        )

    def apply(self, event: Event) -> None:
        pipeline = str(event["pipeline"])
        labels = {"pipeline": pipeline, "sink": str(event.get("sink") or "")}
        with self._changing:
            self._own.setdefault(pipeline, PipelineStatus(pipeline)).apply(event)
            if event["event"] == "started":
                for sink in event.get("sinks", [None]):
                    self._declare({**labels, "sink": str(sink or "")})
            elif event["event"] == "progress":
                self._add(event, labels)
            elif event["event"] == "restarting":
                self._counter("restarts", labels).value += 1

    def _declare(self, labels: dict[str, str]) -> None:
        """From the start: a rate needs a value before the first change."""
        for name in _COUNTERS:
            self._counter(name, labels)

    def _add(self, event: Event, labels: dict[str, str]) -> None:
        self._metrics.histogram(
            _PREFIX + "batch_seconds", "Micro-batches that were committed.", _BATCH_BOUNDS_S, **labels
        ).observe(event["batch_ms"] / 1000)
        self._counter("rows_read", labels).value += event["rows"]
        # Spark does not tell it for every sink.
        if event.get("rows_written") is not None:
            self._counter("rows_written", labels).value += event["rows_written"]
        self._counter("deadletters", labels).value += event["dead_letters"]
        self._counter("dropped_rows", labels).value += event["dropped"]
        self._metrics.gauge(
            _PREFIX + "last_batch_timestamp_seconds", "When the last micro-batch was committed.", **labels
        ).value = time.time()
        self._lag[labels["pipeline"], labels["sink"]] = event["lag_by_partition"]

    def _counter(self, name: str, labels: dict[str, str]) -> Any:
        return self._metrics.counter(f"{_PREFIX}{name}_total", _COUNTERS[name], **labels)

    def _own_statuses(self) -> list[dict[str, Any]]:
        with self._changing:
            return [{"name": each.name, "state": each.state} for each in self._own.values()]

    def _states(self) -> Iterator[tuple[Labels, float]]:
        for status in list(self._statuses()):
            for state in get_args(State):
                yield {"pipeline": str(status["name"]), "state": state}, status["state"] == state

    def _lags(self) -> Iterator[tuple[Labels, float]]:
        shown = {str(status["name"]) for status in self._statuses()}
        with self._changing:
            known = dict(self._lag)
        for (pipeline, sink), by_topic in known.items():
            if pipeline not in shown:
                continue
            for topic, by_partition in by_topic.items():
                for partition, lag in by_partition.items():
                    yield {"pipeline": pipeline, "sink": sink, "topic": topic, "partition": str(partition)}, lag


_COUNTERS: Final = {
    "rows_read": "Rows that micro-batches read.",
    "rows_written": "Rows that Spark reports as written, with dead letters; 0 for sinks of which it does not tell.",
    "deadletters": "Rows that became dead letters.",
    "dropped_rows": "Bad rows that were dropped.",
    "restarts": "Restarts of the query after a failure.",
}

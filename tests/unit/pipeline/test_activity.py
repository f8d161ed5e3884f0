"""What is told while a person waits, with a clock that the test moves and a Spark that only pretends."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.core.ids import TopicPartition
from penstock.pipeline.activity import EXECUTOR_PATIENCE_S, LOOK_EVERY_S, Activity
from penstock.pipeline.progress import BatchProgress
from penstock.pipeline.spark import internals
from penstock.pipeline.spark.internals import RunningTasks


class Brokers:
    reason: str | None = None
    is_closed = False

    def look(self) -> str | None:
        return self.reason

    def close(self) -> None:
        self.is_closed = True


class Waiting:
    """A person who waits before a pipeline, and what happens meanwhile."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.tasks: RunningTasks | None = None
        self.brokers = Brokers()
        self.events: list[Any] = []
        monkeypatch.setattr(internals, "is_between_batches", lambda _query: self.tasks is None)
        monkeypatch.setattr(internals, "running_tasks", lambda _query: self.tasks)
        brokers: Any = [self.brokers]
        self.activity = Activity(self.events.append, brokers, lambda: self.now)

    def look(self) -> list[Any]:
        """What is told a second later."""
        self.now += LOOK_EVERY_S
        self.events.clear()
        query: Any = None
        self.activity.look(query)
        return list(self.events)

    def batch_done(self, batch_id: int, lag: int | None) -> None:
        lags = {} if lag is None else {TopicPartition("orders", 0): lag}
        self.activity.batch_done(BatchProgress(batch_id, "t", 10, 100, {}, lags, 0, 0, None))


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Waiting:
    return Waiting(monkeypatch)


def test_the_tasks_of_a_batch_are_told_once_a_second(waiting: Waiting) -> None:
    waiting.tasks = RunningTasks(12, 3, 2)
    assert waiting.look() == [{"event": "batch", "batch": None, "tasks": 12, "tasks_done": 3}]
    waiting.now -= LOOK_EVERY_S / 2
    assert waiting.look() == []
    waiting.batch_done(6, 100)
    waiting.tasks = RunningTasks(12, 7, 2)
    assert waiting.look() == [{"event": "batch", "batch": 7, "tasks": 12, "tasks_done": 7}]


def test_a_pipeline_without_lag_is_idle_and_says_so_once(waiting: Waiting) -> None:
    assert waiting.look() == []  # it has not looked for records yet
    waiting.batch_done(0, 5)
    assert waiting.look() == []
    waiting.batch_done(1, 0)
    assert waiting.look() == [{"event": "idle", "lag": 0}]
    assert waiting.look() == []
    waiting.batch_done(2, 0)
    assert waiting.look() == [{"event": "idle", "lag": 0}]


def test_a_start_with_nothing_to_do_and_a_source_without_lag_are_idle_when_spark_says_so(waiting: Waiting) -> None:
    waiting.activity.found_nothing()
    assert waiting.look() == [{"event": "idle", "lag": 0}]
    waiting.batch_done(0, None)
    assert waiting.look() == []
    waiting.activity.found_nothing()
    assert waiting.look() == [{"event": "idle", "lag": 0}]


def test_a_broker_that_is_away_is_told_at_the_next_look_and_so_is_its_return(waiting: Waiting) -> None:
    waiting.batch_done(0, 0)
    assert waiting.look() == [{"event": "idle", "lag": 0}]
    waiting.brokers.reason = "no broker answers"
    assert waiting.look() == [{"event": "waiting", "reason": "no broker answers"}]
    assert waiting.look() == []
    waiting.brokers.reason = None
    assert waiting.look() == [{"event": "resumed"}, {"event": "idle", "lag": 0}]
    waiting.activity.close()
    assert waiting.brokers.is_closed


def test_a_cluster_without_executors_is_told_after_a_while(waiting: Waiting) -> None:
    waiting.tasks = RunningTasks(4, 0, 0, has_executors=False)
    told: list[Any] = []
    while not any(event["event"] == "waiting" for event in told):
        told = waiting.look()
        assert waiting.now <= EXECUTOR_PATIENCE_S + 2 * LOOK_EVERY_S
    assert "has given this pipeline no executor" in told[0]["reason"]
    waiting.tasks = RunningTasks(4, 0, 2)
    assert waiting.look()[0] == {"event": "resumed"}


def test_a_run_that_ends_when_it_is_idle_does_not_say_so(waiting: Waiting) -> None:
    waiting.activity = Activity(waiting.events.append, (), lambda: waiting.now, ends_when_idle=True)
    waiting.batch_done(0, 0)
    assert waiting.look() == []

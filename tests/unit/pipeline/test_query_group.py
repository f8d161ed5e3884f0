"""Several queries under one supervision, without queries."""

from __future__ import annotations

import threading

import pytest

from penstock.pipeline.failure import PipelineFailed
from penstock.pipeline.query_group import run_together

PATIENCE_S = 30.0


def test_it_ends_when_all_have() -> None:
    first_may_end = threading.Event()
    ended: list[str] = []

    def first() -> None:
        assert first_may_end.wait(PATIENCE_S)
        ended.append("first")

    def second() -> None:
        ended.append("second")
        first_may_end.set()

    run_together({"first": first, "second": second}, threading.Event(), threading.Event())
    assert ended == ["second", "first"]


def test_one_that_fails_stops_the_others_and_is_the_failure() -> None:
    stop, stop_queries = threading.Event(), threading.Event()
    finished: list[str] = []

    def healthy() -> None:
        assert stop_queries.wait(PATIENCE_S)
        finished.append("healthy")

    def failing() -> None:
        raise PipelineFailed("sinks.failing: no such table")

    with pytest.raises(PipelineFailed, match=r"sinks\.failing: no such table"):
        run_together({"healthy": healthy, "failing": failing}, stop, stop_queries)
    assert finished == ["healthy"]
    assert not stop.is_set(), "who was asked to stop is another matter"


def test_all_stop_when_the_pipeline_is_asked_to() -> None:
    stop, stop_queries = threading.Event(), threading.Event()

    def query() -> None:
        stop.set()
        assert stop_queries.wait(PATIENCE_S)

    run_together({"one": query, "two": query}, stop, stop_queries)


def test_of_two_failures_the_first_is_told() -> None:
    first_failed = threading.Event()

    def first() -> None:
        first_failed.set()
        raise PipelineFailed("first")

    def second(stop_queries: threading.Event) -> None:
        assert first_failed.wait(PATIENCE_S)
        assert stop_queries.wait(PATIENCE_S)
        raise PipelineFailed("second")

    stop_queries = threading.Event()
    with pytest.raises(PipelineFailed, match="first"):
        run_together({"a": first, "b": lambda: second(stop_queries)}, threading.Event(), stop_queries)

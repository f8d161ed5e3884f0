"""Queries of a process start one after the other, without Spark."""

from __future__ import annotations

import threading
from typing import Any

from penstock.pipeline.spark.query_start import start_query

PATIENCE_S = 30.0


class Query:
    """Gives its messages in turn, and stays at the last."""

    isActive = True  # noqa: N815 (Spark's name)

    def __init__(self, *messages: str) -> None:
        self._messages = list(messages)
        self.asked = 0

    @property
    def status(self) -> dict[str, Any]:
        self.asked += 1
        message = self._messages.pop(0) if len(self._messages) > 1 else self._messages[0]
        return {"message": message}


def test_it_waits_until_a_query_has_asked_its_sources() -> None:
    query = Query("Initializing StreamExecution", "Initializing sources", "Getting offsets from penstock", "Processing")
    start_query(lambda: query)  # type: ignore[arg-type, return-value]
    assert query.asked == 4


def test_the_next_one_begins_behind_it() -> None:
    order: list[str] = []
    first_runs = threading.Event()

    class Slow(Query):
        @property
        def status(self) -> dict[str, Any]:
            order.append("first begins")
            first_runs.set()
            return super().status

    def start_second() -> Query:
        order.append("second begins")
        return Query("Waiting for data to arrive")

    def second() -> None:
        assert first_runs.wait(PATIENCE_S)
        start_query(start_second)  # type: ignore[arg-type]

    thread = threading.Thread(target=second)
    thread.start()
    start_query(lambda: Slow(*["Initializing sources"] * 20, "Processing new data"))  # type: ignore[arg-type, return-value]
    thread.join(PATIENCE_S)
    assert order == ["first begins"] * 21 + ["second begins"]


def test_one_that_has_ended_or_never_gets_an_answer_holds_up_nobody() -> None:
    ended = Query("Initializing sources")
    ended.isActive = False
    start_query(lambda: ended)  # type: ignore[arg-type, return-value]
    start_query(lambda: Query("Getting offsets from penstock"), wait_s_max=0.05)  # type: ignore[arg-type, return-value]

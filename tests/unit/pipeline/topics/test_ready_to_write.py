"""Which queries are arranged for a transaction, and which hand over to their commit."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.pipeline.topics.row_encoding import ready_to_write

ARRANGED: Any = object()
DIRECTORY = Path("/checkpoint/hand_over")


@pytest.fixture(autouse=True)
def _arranging(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.pipeline.topics.row_encoding.repartition_by_target", lambda _rows, _options: ARRANGED)


def rows_on(master: str | None) -> Any:
    return SimpleNamespace(sparkSession=SimpleNamespace(sparkContext=SimpleNamespace(master=master)))


@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
@pytest.mark.parametrize("master", ["local[2,4]", "spark://host:7077"])
def test_without_a_transaction_rows_stay_as_they_are(guarantee: str, master: str) -> None:
    rows, options = rows_on(master), {"guarantee": guarantee, "topic": "t"}
    assert ready_to_write(rows, options, DIRECTORY) == (rows, options)


@pytest.mark.parametrize("master", ["local", "local[2]", "local[2,4]"])
def test_on_one_machine_tasks_hand_over(master: str) -> None:
    rows = rows_on(master)
    ready, options = ready_to_write(rows, {"guarantee": "exactly_once"}, DIRECTORY)
    assert ready is rows
    assert options == {"guarantee": "exactly_once", "handOverDirectory": str(DIRECTORY)}


def test_a_directory_that_somebody_chose_stays() -> None:
    chosen = {"guarantee": "exactly_once", "handOverDirectory": "/fast"}
    assert ready_to_write(rows_on("local"), chosen, DIRECTORY)[1] == chosen


@pytest.mark.parametrize(
    ("master", "directory"), [("spark://host:7077", DIRECTORY), ("yarn", DIRECTORY), (None, DIRECTORY), ("local", None)]
)
def test_where_nothing_is_shared_rows_are_arranged(master: str | None, directory: Path | None) -> None:
    ready, options = ready_to_write(rows_on(master), {"guarantee": "exactly_once"}, directory)
    assert ready is ARRANGED
    assert options == {"guarantee": "exactly_once"}

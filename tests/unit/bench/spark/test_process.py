"""The process that measures, with small programs in place of Spark."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from penstock.bench.measurement import MeasurementError
from penstock.bench.spark.process import SparkProcess

LIMIT_S = 30.0


def program(text: str) -> list[str]:
    return [sys.executable, "-c", text]


def test_lines_come_one_by_one_and_a_query_ends_when_told(tmp_path: Path) -> None:
    text = (
        'import sys; print(\'{"n": 1}\\n{"n": 2}\', flush=True); sys.stdin.readline(); print(\'{"n": 3}\', flush=True)'
    )
    with SparkProcess(program(text), tmp_path) as process:
        assert [process.next_line(LIMIT_S)["n"] for _ in range(2)] == [1, 2]
        process.end_query()
        assert process.next_line(LIMIT_S)["n"] == 3
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_ends_early_is_explained_by_its_last_words(tmp_path: Path) -> None:
    with (
        SparkProcess(program("raise SystemExit('no such topic')"), tmp_path) as process,
        pytest.raises(MeasurementError, match=r"exited before it had finished\nno such topic"),
    ):
        process.next_line(LIMIT_S)


def test_a_process_that_says_nothing_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    with (
        SparkProcess(program("import sys; sys.stdin.read()"), tmp_path) as process,
        pytest.raises(MeasurementError, match="printed nothing"),
    ):
        process.next_line(0.05)


def test_it_runs_on_loopback_and_leaves_no_archive_behind(tmp_path: Path) -> None:
    text = "import json, os; print(json.dumps(dict(os.environ)))"
    with SparkProcess(program(text), tmp_path) as process:
        environment = process.next_line(LIMIT_S)
    assert environment["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert environment["PENSTOCK_JAVA_ARCHIVE"] == "use"
    assert environment["PYSPARK_PYTHON"] == sys.executable

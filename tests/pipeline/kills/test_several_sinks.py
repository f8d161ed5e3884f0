"""A pipeline with two sinks, killed with -9 in the commits of either: both complete, without loss or repeats."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from penstock.core.exit_codes import ExitCode
from tests import crash_points
from tests.pipeline.kills.number_feed import NumberFeed, input_of
from tests.pipeline.kills.pipeline_process import PipelineProcess
from tests.pipeline.kills.scene import DEAD_LETTERS, SOURCE, Scene, scene
from tests.pipeline.kills.sink_contents import TableUnderTest
from tests.pipeline.topic_contents import contents

PATIENCE_S = 300
# In the transaction of either sink, and between its commit and Spark's.
STEPS = ("topic.before_end_txn", "table.before_database_commit", "topic.after_end_txn", "table.after_database_commit")

pytestmark = [pytest.mark.kills, pytest.mark.timeout(900)]


def await_that(process: PipelineProcess, what: str, came: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not came():
        assert process.is_running, f"{what}: it ended with {process.exit_code}; {process.last_words}"
        assert time.monotonic() < deadline, f"{what}: {process.last_words}"
        time.sleep(0.05)


def with_two_sinks(made: Scene) -> TableUnderTest:
    """Adds a table beside the topic."""
    table = TableUnderTest(f"sqlite:///{made.directory}/numbers.db")
    declared = yaml.safe_load(made.pipeline.read_text())
    declared["sinks"] = {"topic": declared.pop("sink"), "table": table.declaration()}
    made.pipeline.write_text(yaml.safe_dump(declared))
    return table


def kill_at(made: Scene, step: str) -> None:
    with PipelineProcess(made.pipeline, made.crash_directory, made.log) as process:
        await_that(process, "a batch", lambda: process.batches > 0)
        jvm = process.await_jvm(PATIENCE_S)
        assert jvm is not None
        crash_points.arm(made.crash_directory, step, jvm, process.driver, crash_points.SELF)
        deadline = time.monotonic() + PATIENCE_S
        while not crash_points.was_hit(made.crash_directory, step):
            assert time.monotonic() < deadline, f"{step} was not reached; {process.last_words}"
            time.sleep(0.02)
        assert process.wait(PATIENCE_S) == -9


def test_both_sinks_hold_every_row_once_after_kills_in_the_commits_of_either(tmp_path: Path) -> None:
    with scene(tmp_path, "topic", "exactly_once") as made:
        table = with_two_sinks(made)
        servers = made.broker.bootstrap_servers
        feed = NumberFeed(servers, SOURCE, per_second=50)
        for step in STEPS:
            kill_at(made, step)
        feed.stop()
        with PipelineProcess(made.pipeline, made.crash_directory, made.log, "--once") as last:
            assert last.wait(PATIENCE_S) == ExitCode.OK, last.last_words
        expected = input_of(servers, SOURCE)
        assert expected.good
        assert made.sink.rows() == expected.good
        assert table.rows() == expected.good
        letters = [record.value or b"" for record in contents(servers, DEAD_LETTERS)]
        assert sorted(letters) == sorted(expected.bad.elements())

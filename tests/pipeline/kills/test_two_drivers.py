"""Two drivers of one pipeline: the first is fenced, the second goes on, and nothing is lost or doubled."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.core.exit_codes import ExitCode
from penstock.testing.database_server import DatabaseMissingError
from tests.conftest import optional_part_missing
from tests.pipeline.kills.number_feed import NumberFeed, input_of
from tests.pipeline.kills.pipeline_process import PipelineProcess
from tests.pipeline.kills.scene import DEAD_LETTERS, SINK_NAMES, SOURCE, Scene, SinkName, scene
from tests.pipeline.topic_contents import contents

PATIENCE_S = 300

pytestmark = [pytest.mark.kills, pytest.mark.timeout(900)]


def run(made: Scene, *options: str) -> PipelineProcess:
    return PipelineProcess(made.pipeline, made.crash_directory, made.log, *options)


def await_that(process: PipelineProcess, what: str, came: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not came():
        assert process.is_running, f"{what}: it ended with {process.exit_code}; {process.last_words}"
        assert time.monotonic() < deadline, f"{what}: {process.last_words}"
        time.sleep(0.05)


def require_exactly_once(made: Scene) -> None:
    with run(made, "--once") as last:
        assert last.wait(PATIENCE_S) == ExitCode.OK, last.last_words
    expected = input_of(made.broker.bootstrap_servers, SOURCE)
    assert expected.good
    assert made.sink.rows() == expected.good
    letters = [record.value for record in contents(made.broker.bootstrap_servers, DEAD_LETTERS)]
    assert sorted(letter or b"" for letter in letters) == sorted(expected.bad)


@pytest.mark.parametrize(
    ("sink", "busy"), [("topic", False), *((sink, True) for sink in SINK_NAMES if sink != "files"), ("files", False)]
)
def test_the_second_takes_over(sink: SinkName, busy: bool, tmp_path: Path) -> None:
    """Busy: there is always another batch to write. Else both wait for the same rows, and want to write them."""
    try:
        with scene(tmp_path, sink, "exactly_once") as made:
            second_takes_over(made, busy)
            require_exactly_once(made)
    except DatabaseMissingError as missing:
        optional_part_missing(str(missing))


def second_takes_over(made: Scene, busy: bool) -> None:
    servers = made.broker.bootstrap_servers
    feed = NumberFeed(servers, SOURCE, per_second=50)
    with run(made) as first:
        await_that(first, "the first batch", lambda: first.batches > 0)
        if not busy:
            feed.stop()
        with run(made) as second:
            await_that(second, "the second's start", lambda: second.has_started)
            if not busy:
                feed = NumberFeed(servers, SOURCE, per_second=50, first_number=feed.next_number)
            assert first.wait(PATIENCE_S) == ExitCode.FENCED, first.last_words
            await_that(second, "a batch of the second", lambda: second.batches > 0)
            feed.stop()
            assert second.terminate() == ExitCode.OK, second.last_words

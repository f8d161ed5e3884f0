"""Workers killed with -9 at every step between an effect and its commit, and started again: what a guarantee promises.

The weaker guarantees are killed where they are weaker, and must show it.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests import crash_points
from tests.conftest import RunningBroker
from tests.pipeline.connect.worker_process import Work, WorkerProcess
from tests.pipeline.topic_contents import contents
from tests.pipeline.topic_feed import TopicFeed

pytestmark = [pytest.mark.kills, pytest.mark.timeout(1800)]

PORTION = 500
WAIT_S = 300
EXACTLY_ONCE = {"exactly.once.source.support": "enabled"}
SOURCE_STEPS = (
    "connect.source_after_epochs",
    "connect.source_before_commit",
    "connect.source_after_commit",
    "connect.source_after_job",
)
SINK_STEPS = ("connect.sink_task_written", "connect.sink_before_commit", "connect.sink_before_offsets")


def run(work: Work, directory: Path, *, kill_at: str | None) -> None:
    """One worker from its start to its end; `kill_at` is where that end comes early."""
    steps = directory / "steps"
    steps.mkdir(exist_ok=True)
    with WorkerProcess(work, steps, directory / "worker.log") as worker:
        victims = worker.await_session()
        if kill_at is not None:
            crash_points.arm(steps, kill_at, *victims, crash_points.SELF)
        worker.begin()
        exit_code = worker.wait(WAIT_S)
    log = (directory / "worker.log").read_text()[-3000:]
    if kill_at is None:
        assert exit_code == 0, log
    else:
        assert exit_code == -9, log
        assert crash_points.was_hit(steps, kill_at)


class Numbers:
    """Counts up; each portion is written once."""

    def __init__(self) -> None:
        self._next = 0

    def portion(self) -> range:
        portion = range(self._next, self._next + PORTION)
        self._next += PORTION
        return portion

    @property
    def expected(self) -> Counter[bytes]:
        return Counter(b"%d" % number for number in range(self._next))


def source(broker: RunningBroker, directory: Path, worker: Mapping[str, str]) -> tuple[Work, str]:
    topic = TopicFeed(broker.bootstrap_servers).create(partitions=2)
    config = {
        "connector.class": "FileStreamSource",
        "file": str(directory / "lines.txt"),
        "topic": topic,
    }
    return Work(broker.bootstrap_servers, f"source-{topic}", config, worker), topic


def append(directory: Path, numbers: Numbers) -> None:
    with (directory / "lines.txt").open("a") as lines:
        lines.writelines(f"{number}\n" for number in numbers.portion())


def produced(broker: RunningBroker, topic: str) -> Counter[bytes | None]:
    return Counter(record.value for record in contents(broker.bootstrap_servers, topic))


def test_a_source_is_exactly_once_under_a_kill_at_every_step(broker_under_test: RunningBroker, tmp_path: Path) -> None:
    work, topic = source(broker_under_test, tmp_path, EXACTLY_ONCE)
    numbers = Numbers()
    for step in SOURCE_STEPS:
        append(tmp_path, numbers)
        run(work, tmp_path, kill_at=step)
    run(work, tmp_path, kill_at=None)
    assert produced(broker_under_test, topic) == numbers.expected


def test_a_source_without_transactions_repeats(broker_under_test: RunningBroker, tmp_path: Path) -> None:
    work, topic = source(broker_under_test, tmp_path, {})
    numbers = Numbers()
    append(tmp_path, numbers)
    run(work, tmp_path, kill_at="connect.source_before_offsets")
    run(work, tmp_path, kill_at=None)
    found = produced(broker_under_test, topic)
    assert set(found) == set(numbers.expected)
    assert found.total() == 2 * PORTION


def sink(broker: RunningBroker, directory: Path, guarantee: str) -> tuple[Work, TopicFeed]:
    feed = TopicFeed(broker.bootstrap_servers)
    config = {
        "connector.class": "FileStreamSink",
        "file": str(directory / f"copy-{uuid.uuid4().hex}.txt"),
        "topics": feed.create(partitions=2),
        "tasks.max": "2",
        "guarantee": guarantee,
    }
    return Work(broker.bootstrap_servers, f"sink-{config['topics']}", config), feed


def written(work: Work) -> Counter[bytes]:
    return Counter(Path(work.config["file"]).read_bytes().splitlines())


def test_a_sink_is_exactly_once_under_a_kill_at_every_step(broker_under_test: RunningBroker, tmp_path: Path) -> None:
    work, feed = sink(broker_under_test, tmp_path, "exactly_once")
    numbers = Numbers()
    for step in SINK_STEPS:
        feed.numbers(work.config["topics"], numbers.portion(), partitions=2)
        run(work, tmp_path, kill_at=step)
    run(work, tmp_path, kill_at=None)
    assert written(work) == numbers.expected


def test_a_sink_at_least_once_repeats(broker_under_test: RunningBroker, tmp_path: Path) -> None:
    work, feed = sink(broker_under_test, tmp_path, "at_least_once")
    numbers = Numbers()
    feed.numbers(work.config["topics"], numbers.portion(), partitions=2)
    run(work, tmp_path, kill_at="connect.sink_before_offsets")
    run(work, tmp_path, kill_at=None)
    found = written(work)
    assert set(found) == set(numbers.expected)
    assert found.total() == 2 * PORTION


def test_a_sink_at_most_once_loses(broker_under_test: RunningBroker, tmp_path: Path) -> None:
    work, feed = sink(broker_under_test, tmp_path, "at_most_once")
    numbers = Numbers()
    lost = numbers.portion()
    feed.numbers(work.config["topics"], lost, partitions=2)
    run(work, tmp_path, kill_at="connect.sink_after_offsets")
    feed.numbers(work.config["topics"], numbers.portion(), partitions=2)
    run(work, tmp_path, kill_at=None)
    assert written(work) == numbers.expected - Counter(b"%d" % number for number in lost)


def test_a_worker_whose_spark_is_killed_starts_it_again(broker_under_test: RunningBroker, tmp_path: Path) -> None:
    steps = tmp_path / "steps"
    steps.mkdir()
    work, feed = sink(broker_under_test, tmp_path, "exactly_once")
    numbers = Numbers()
    feed.numbers(work.config["topics"], numbers.portion(), partitions=2)
    with WorkerProcess(work, steps, tmp_path / "worker.log") as worker:
        _worker_id, jvm_id = worker.await_session()
        crash_points.arm(steps, "connect.sink_task_written", jvm_id)
        worker.begin()
        assert worker.wait(WAIT_S) == 0, (tmp_path / "worker.log").read_text()[-3000:]
    assert crash_points.was_hit(steps, "connect.sink_task_written")
    assert written(work) == numbers.expected

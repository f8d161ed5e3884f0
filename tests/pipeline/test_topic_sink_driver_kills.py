"""Drivers that write a topic through Spark itself, killed with -9 at every step of a commit, and started again.

kills/ kills whole pipelines, whose tasks hand their rows over to the commit. Here are the two cases that no pipeline on
one machine is: rows arranged by partition, as on a cluster, and two drivers with a checkpoint each.
"""

from __future__ import annotations

import shutil
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.core.exit_codes import ExitCode
from tests import crash_points
from tests.conftest import RunningBroker
from tests.pipeline.topic_contents import contents
from tests.pipeline.topic_copy_driver import CopyDriver, CopyJob
from tests.pipeline.topic_feed import TopicFeed

STEPS = (
    "topic.before_init",
    "topic.after_init",
    "topic.task_written",
    "topic.before_commit",
    "topic.before_offsets",
    "topic.before_end_txn",
    "topic.after_end_txn",
)
RECORDS = 1000
WAIT_S = 120


def copy_job(broker: RunningBroker, directory: Path) -> CopyJob:
    feed = TopicFeed(broker.bootstrap_servers)
    source, target = feed.create(partitions=2), feed.create(partitions=3)
    feed.numbers(source, range(RECORDS), partitions=2)
    checkpoint = str(directory / "checkpoint")
    return CopyJob(broker.bootstrap_servers, source, target, checkpoint, name=f"copy-{target}")


def run(job: CopyJob, directory: Path, *, kill_at: str | None) -> None:
    """One driver from its start to its end; `kill_at` is where that end comes early."""
    steps = directory / "steps"
    steps.mkdir(exist_ok=True)
    with CopyDriver(job, steps, directory / "driver.log") as driver:
        victims = driver.await_session()
        if kill_at is not None:
            crash_points.arm(steps, kill_at, *victims, crash_points.SELF)
        driver.begin()
        exit_code = driver.wait(WAIT_S)
    log = (directory / "driver.log").read_text()[-3000:]
    if kill_at is None:
        assert exit_code == ExitCode.OK, log
    else:
        assert exit_code == -9, log
        assert crash_points.was_hit(steps, kill_at)


def copied(job: CopyJob) -> Counter[bytes | None]:
    return Counter(record.value for record in contents(job.servers, job.target))


EXPECTED = Counter(b"%d" % number for number in range(RECORDS))


@pytest.mark.kills
@pytest.mark.timeout(900)
def test_arranged_rows_survive_a_kill_at_every_step(broker_under_test: RunningBroker, tmp_path: Path) -> None:
    job = copy_job(broker_under_test, tmp_path)
    for step in STEPS:
        run(job, tmp_path, kill_at=step)
    run(job, tmp_path, kill_at=None)
    assert copied(job) == EXPECTED


@pytest.mark.kills
@pytest.mark.timeout(300)
def test_the_first_of_two_drivers_is_fenced(broker_under_test: RunningBroker, tmp_path: Path) -> None:
    """Each has a copy of the checkpoint, as if two machines ran the pipeline; together they copy every record once."""
    job = copy_job(broker_under_test, tmp_path)
    steps = tmp_path / "steps"
    steps.mkdir()
    slow = replace(job, slowness_s=1.0)
    with (
        CopyDriver(slow, steps, tmp_path / "first.log") as first,
        CopyDriver(replace(job, checkpoint=str(tmp_path / "copy")), steps, tmp_path / "second.log") as second,
    ):
        first.await_session()
        second.await_session()
        first.begin()
        committed = tmp_path / "checkpoint" / "commits" / "2"
        deadline = time.monotonic() + WAIT_S
        while not committed.exists():
            assert time.monotonic() < deadline
            time.sleep(0.1)
        shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
        second.begin()
        assert second.wait(WAIT_S) == ExitCode.OK, (tmp_path / "second.log").read_text()[-3000:]
        assert first.wait(WAIT_S) == ExitCode.FENCED, (tmp_path / "first.log").read_text()[-3000:]
    assert copied(job) == EXPECTED

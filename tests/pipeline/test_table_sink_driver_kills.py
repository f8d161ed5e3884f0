"""Drivers of a pipeline into a table killed with -9 at every step of a commit, and started again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from penstock.core.exit_codes import ExitCode
from penstock.pipeline import crash_points
from tests.conftest import RunningBroker
from tests.pipeline.table_driver import TableDriver
from tests.pipeline.table_job import TableJob, dead_letters_of, table_of
from tests.pipeline.topic_contents import contents
from tests.pipeline.topic_feed import TopicFeed
from tests.postgres_server import running_postgres

STEPS = (
    "table.staged",
    "table.before_commit",
    "table.before_ledger",
    "table.before_database_commit",
    "table.after_database_commit",
    "table.dead_letters_published",
)
WAIT_S = 120


def table_job(url: str, directory: Path, broker: RunningBroker, **settings: object) -> TableJob:
    dead_letters = TopicFeed(broker.bootstrap_servers).create(partitions=2)
    return TableJob(
        url=url,
        checkpoint=str(directory / "checkpoint"),
        run=uuid4().hex,
        pipeline=f"numbers-{dead_letters}",
        dead_letters=dead_letters,
        kafka={"bootstrap.servers": broker.bootstrap_servers},
        **settings,  # type: ignore[arg-type]
    )


def run(job: TableJob, directory: Path, *, kill_at: str | None) -> None:
    """One driver from its start to its end, in a run of its own; `kill_at` is where that end comes early."""
    steps = directory / "steps"
    steps.mkdir(exist_ok=True)
    log = directory / "driver.log"
    with TableDriver(replace(job, run=uuid4().hex), steps, log) as driver:
        victims = driver.await_session()
        if kill_at is not None:
            crash_points.arm(steps, kill_at, *victims, crash_points.SELF)
        driver.begin()
        exit_code = driver.wait(WAIT_S)
    if kill_at is None:
        assert exit_code == ExitCode.OK, log.read_text()[-3000:]
    else:
        assert exit_code == -9, log.read_text()[-3000:]
        assert crash_points.was_hit(steps, kill_at)


def require_exactly_once(job: TableJob) -> None:
    assert table_of(job) == job.expected()
    assert dead_letters_of(job) == Counter()  # all of them are in their topic
    assert job.dead_letters is not None
    letters = contents(job.kafka["bootstrap.servers"], job.dead_letters)
    assert Counter(letter.value for letter in letters) == Counter(
        b"%d" % number for number in range(job.count) if number % 10 == 3
    )


@pytest.mark.kills
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_exactly_once_survives_a_kill_at_every_step(
    database: str, mode: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, broker_under_test: RunningBroker
) -> None:
    with running_postgres(tmp_path_factory.mktemp("postgres")) as postgres:
        url = f"sqlite:///{tmp_path}/numbers.db" if database == "sqlite" else postgres.url
        job = table_job(url, tmp_path, broker_under_test, mode=mode, count=100_000, per_batch=10_000)
        for step in STEPS:
            run(job, tmp_path, kill_at=step)
        run(job, tmp_path, kill_at=None)
        require_exactly_once(job)


@pytest.mark.kills
@pytest.mark.timeout(300)
def test_of_two_drivers_the_first_is_fenced_and_nothing_comes_twice(
    tmp_path: Path, broker_under_test: RunningBroker
) -> None:
    job = table_job(f"sqlite:///{tmp_path}/numbers.db", tmp_path, broker_under_test, count=2000, per_batch=10)
    steps = tmp_path / "steps"
    steps.mkdir()
    with (
        TableDriver(replace(job, run="first"), steps, tmp_path / "first.log") as first,
        TableDriver(replace(job, run="second"), steps, tmp_path / "second.log") as second,
    ):
        first.await_session()
        second.await_session()
        first.begin()
        first.await_first_batch()
        second.begin()
        assert second.wait(WAIT_S) == ExitCode.OK, (tmp_path / "second.log").read_text()[-3000:]
        assert first.wait(WAIT_S) == ExitCode.FENCED, (tmp_path / "first.log").read_text()[-3000:]
    require_exactly_once(job)

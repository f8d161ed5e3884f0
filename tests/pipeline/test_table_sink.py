"""Rows into tables of SQLite and PostgreSQL: append, upsert, and exactly once with processes killed at every step."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from penstock.core.error_table import Retry
from penstock.core.errors import find_error
from penstock.pipeline.sinks.table.errors import Fenced, TableRefused
from penstock.pipeline.sinks.table.preparation import claim, prepare
from tests import crash_points
from tests.pipeline.table_job import TableJob, dead_letters_of, rows_of, staging_of, table_of
from tests.postgres_server import PostgresServer, running_postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NewJob = Callable[..., TableJob]
LARGE = {"count": 60_000, "per_batch": 20_000}  # more than a message carries: these batches are staged
COMMIT_STEPS = (
    "table.before_commit",
    "table.before_ledger",
    "table.before_database_commit",
    "table.after_database_commit",
)


@pytest.fixture(scope="module")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with running_postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def new_job(request: pytest.FixtureRequest, tmp_path: Path) -> NewJob:
    """Jobs of one database that is the test's own, or whose names are."""
    name = f"t{uuid4().hex[:10]}"
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/numbers.db"
    else:
        url = request.getfixturevalue("postgres").url

    def create(**settings: object) -> TableJob:
        defaults = {"checkpoint": str(tmp_path / "checkpoint"), "run": uuid4().hex, "table": name, "pipeline": name}
        return TableJob(url=url, **{**defaults, **settings})  # type: ignore[arg-type]

    return create


def run(spark: SparkSession, job: TableJob) -> Exception | None:
    """One life of the query; what it died of."""
    try:
        job.start(spark).awaitTermination()
    except Exception as failure:
        return failure
    return None


def dead_numbers(job: TableJob) -> Counter[int]:
    return Counter(number for number in range(job.count) if number % 10 == 3)


@pytest.mark.parametrize("mode", ["append", "upsert"])
@pytest.mark.parametrize("size", [{}, LARGE], ids=["small", "large"])
def test_all_rows_once_and_the_table_is_created(
    spark: SparkSession, new_job: NewJob, mode: str, size: dict[str, int]
) -> None:
    job = new_job(mode=mode, **size)
    job.claim(spark)
    assert run(spark, job) is None
    assert table_of(job) == job.expected()
    assert dead_letters_of(job) == dead_numbers(job)
    assert staging_of(job) == []
    (row,) = rows_of(job.url, f"SELECT batch_id, source_offsets FROM penstock_ledger WHERE pipeline = '{job.pipeline}'")
    assert row[0] == job.count // job.per_batch - 1
    assert json.loads(row[1]) == {"next": job.count}


@pytest.mark.parametrize("size", [{"count": 300}, LARGE], ids=["small", "large"])
def test_exactly_once_survives_the_death_of_the_committing_process_at_every_step(
    spark: SparkSession, new_job: NewJob, crash_directory: Path, size: dict[str, int]
) -> None:
    job = new_job(**size)
    job.claim(spark)
    for step in COMMIT_STEPS:
        crash_points.arm(crash_directory, step)
        assert run(spark, job) is not None
        assert crash_points.was_hit(crash_directory, step)
    assert run(spark, job) is None
    assert table_of(job) == job.expected()
    assert dead_letters_of(job) == dead_numbers(job)


def test_a_task_that_dies_behind_its_rows_is_run_again_and_its_rows_count_once(
    spark: SparkSession, new_job: NewJob, crash_directory: Path
) -> None:
    job = new_job(**LARGE)
    job.claim(spark)
    crash_points.arm(crash_directory, "table.staged")
    assert run(spark, job) is None
    assert crash_points.was_hit(crash_directory, "table.staged")
    assert table_of(job) == job.expected()


@pytest.mark.slow
def test_at_least_once_repeats_and_loses_nothing(spark: SparkSession, new_job: NewJob, crash_directory: Path) -> None:
    job = new_job(guarantee="at_least_once", count=300)
    job.claim(spark)
    crash_points.arm(crash_directory, "table.before_commit")
    assert run(spark, job) is not None
    assert crash_points.was_hit(crash_directory, "table.before_commit")
    assert run(spark, job) is None
    assert table_of(job) > job.expected()


@pytest.mark.slow
def test_at_most_once_loses_and_repeats_nothing(spark: SparkSession, new_job: NewJob, crash_directory: Path) -> None:
    job = new_job(guarantee="at_most_once", count=300)
    job.claim(spark)
    crash_points.arm(crash_directory, "table.recorded")
    assert run(spark, job) is not None
    assert crash_points.was_hit(crash_directory, "table.recorded")
    assert run(spark, job) is None
    assert table_of(job) < job.expected()


def test_a_new_checkpoint_counts_batches_from_the_beginning(spark: SparkSession, new_job: NewJob) -> None:
    job = new_job(count=100)
    job.claim(spark)
    assert run(spark, job) is None
    again = new_job(count=100, run=job.run, checkpoint=job.checkpoint + "-2")
    assert run(spark, again) is None
    assert table_of(job) == job.expected() + job.expected()


def test_changed_rows_of_an_aggregation_replace_their_rows(
    spark: SparkSession, new_job: NewJob, crash_directory: Path
) -> None:
    """Update mode, which Spark gives to no Python data source, one micro-batch at a time."""
    from penstock.pipeline.sinks.micro_batch import micro_batch_function
    from penstock.pipeline.sinks.table.data_source import PenstockTable

    job = new_job(mode="upsert", count=500)
    rows = job.numbers(spark)
    sums = rows.groupBy((rows.id % 7).alias("id")).agg({"id": "sum"}).withColumnRenamed("sum(id)", "total")
    prepare(job.target, sums.schema)
    claim(job.target, sums.schema)
    write = micro_batch_function(PenstockTable, job.target.options())

    def run_once() -> Exception | None:
        query = sums.writeStream.outputMode("update").foreachBatch(write)
        query = query.option("checkpointLocation", job.checkpoint).trigger(availableNow=True)
        try:
            query.start().awaitTermination()
        except Exception as failure:
            return failure
        return None

    for step in COMMIT_STEPS:
        crash_points.arm(crash_directory, step)
        assert run_once() is not None
        assert crash_points.was_hit(crash_directory, step)
    assert run_once() is None
    expected = {number: sum(range(number, 500, 7)) for number in range(7)}
    assert dict(rows_of(job.url, f"SELECT id, total FROM {job.table}")) == expected
    successor = new_job(mode="upsert", count=500)
    claim(successor.target, sums.schema)
    job = new_job(mode="upsert", run=job.run, checkpoint=job.checkpoint + "-2")
    assert condition_in(run_once()) == Fenced.condition


def test_a_run_that_was_taken_over_commits_nothing(spark: SparkSession, new_job: NewJob, crash_directory: Path) -> None:
    job = new_job(count=300)
    job.claim(spark)
    crash_points.arm(crash_directory, "table.before_ledger")
    assert run(spark, job) is not None
    successor = new_job(count=300)
    successor.claim(spark)
    failure = run(spark, job)
    assert condition_in(failure) == Fenced.condition
    assert table_of(job) == Counter()
    assert run(spark, successor) is None
    assert table_of(job) == job.expected()


def test_a_column_that_somebody_drops_is_one_clear_line_and_nothing_is_lost(
    spark: SparkSession, new_job: NewJob, crash_directory: Path
) -> None:
    job = new_job(count=300)
    job.claim(spark)
    crash_points.arm(crash_directory, "table.before_database_commit")
    assert run(spark, job) is not None
    if job.url.startswith("sqlite"):
        change(job.url, f"ALTER TABLE {job.table} RENAME COLUMN word TO other")
    else:
        change(job.url, f"ALTER TABLE {job.table} DROP COLUMN word")
    failure = find_error(str(run(spark, job)))
    assert failure is not None
    assert failure.entry.condition == TableRefused.condition
    assert re.search(r"word.*put back what it had and start again, nothing is lost$", str(failure))
    with pytest.raises(TableRefused, match=r"has no column 'word'; ALTER TABLE .* ADD COLUMN \"word\""):
        job.claim(spark)
    change(job.url, f"ALTER TABLE {job.table} ADD COLUMN word TEXT")
    job.claim(spark)
    assert run(spark, job) is None
    assert table_of(job) == job.expected()


@pytest.mark.slow
@pytest.mark.parametrize("new_job", ["postgresql"], indirect=True)
@pytest.mark.parametrize("step", ["table.staged", "table.before_ledger", "table.before_database_commit"])
def test_a_postgresql_that_is_killed_loses_and_repeats_nothing(
    spark: SparkSession, new_job: NewJob, postgres: PostgresServer, crash_directory: Path, step: str
) -> None:
    """Staged rows are gone with the server, which must not pass for a batch of no rows."""
    job = new_job(**LARGE)
    job.claim(spark)
    crash_points.arm(crash_directory, step, postgres.pid)

    def restart() -> None:
        postgres.await_death(120)
        postgres.start()

    restarting = threading.Thread(target=restart)
    restarting.start()
    try:
        run_to_the_end(spark, job)
    finally:
        restarting.join()
    assert crash_points.was_hit(crash_directory, step)
    assert table_of(job) == job.expected()
    assert dead_letters_of(job) == dead_numbers(job)


def condition_in(failure: BaseException | None) -> str | None:
    """The condition that Spark has carried."""
    found = find_error(str(failure))
    return found.entry.condition if found else None


def run_to_the_end(spark: SparkSession, job: TableJob) -> None:
    """As a supervisor does: started again after what may pass."""
    for _ in range(10):
        failure = run(spark, job)
        if failure is None:
            return
        known = find_error(str(failure))
        assert known is not None, failure
        assert known.entry.retry is not Retry.NEVER, failure
    raise AssertionError("the query does not come to its end")


def change(url: str, statement: str) -> None:
    if url.startswith("sqlite"):
        rows_of(url, statement)
        return
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)

"""Python processes of a session killed with -9 at every step of a commit: the query fails, and is started again.

Whole drivers are killed in test_topic_sink_driver_kills.py. Here only the process dies that arrives at the step: the
one that plans, a task's, or the one that commits.
"""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.pipeline.failure import classify_text
from penstock.pipeline.topics.errors import BatchInterrupted
from penstock.pipeline.topics.transaction import claim_ownership
from tests import crash_points
from tests.conftest import RunningBroker
from tests.pipeline.topic_contents import contents
from tests.pipeline.topic_copy_driver import CopyJob, sink_options, start_query
from tests.pipeline.topic_feed import TopicFeed

RECORDS = 300
EXPECTED = Counter(b"%d" % number for number in range(RECORDS))
STEPS = (
    "topic.before_init",
    "topic.after_init",
    "topic.task_written",
    "topic.before_commit",
    "topic.before_offsets",
    "topic.before_end_txn",
    "topic.after_end_txn",
)


@pytest.fixture
def job(broker_under_test: RunningBroker, tmp_path: Path) -> CopyJob:
    feed = TopicFeed(broker_under_test.bootstrap_servers)
    source, target = feed.create(partitions=2), feed.create(partitions=3)
    feed.numbers(source, range(RECORDS), partitions=2)
    return CopyJob(feed.bootstrap_servers, source, target, str(tmp_path), name=f"copy-{uuid.uuid4().hex}")


def with_(job: CopyJob, **changes: object) -> CopyJob:
    return CopyJob(**{**job.__dict__, **changes})


def run(spark: SparkSession, job: CopyJob, options: dict[str, str]) -> str:
    """What the query failed with; nothing if it caught up."""
    query = start_query(spark, job, options)
    try:
        query.awaitTermination()
    except Exception as failure:
        return str(failure)
    finally:
        query.stop()
    return ""


def copied(job: CopyJob, isolation_level: str = "read_committed") -> Counter[bytes | None]:
    return Counter(record.value for record in contents(job.servers, job.target, isolation_level=isolation_level))


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("is_arranged", [False, True])
def test_exactly_once(spark: SparkSession, crash_directory: Path, job: CopyJob, step: str, is_arranged: bool) -> None:
    job = with_(job, arranged=is_arranged)
    options = sink_options(job)
    claim_ownership(options)
    crash_points.arm(crash_directory, step)
    assert run(spark, job, options), "a process of the query was killed"
    assert crash_points.was_hit(crash_directory, step)
    assert run(spark, job, options) == ""
    assert copied(job) == EXPECTED


def test_a_killed_worker_makes_the_batch_fail_in_a_way_that_a_supervisor_knows(
    spark: SparkSession, crash_directory: Path, job: CopyJob
) -> None:
    options = sink_options(job)
    claim_ownership(options)
    crash_points.arm(crash_directory, "topic.task_written")
    assert classify_text(run(spark, job, options)).condition == BatchInterrupted.condition
    assert crash_points.was_hit(crash_directory, "topic.task_written")
    assert run(spark, job, options) == ""
    assert copied(job) == EXPECTED
    assert copied(job, "read_uncommitted") > EXPECTED, "the kill came between a write and its commit"


@pytest.mark.slow
def test_at_least_once_repeats_what_a_killed_task_had_written(
    spark: SparkSession, crash_directory: Path, job: CopyJob
) -> None:
    job = with_(job, guarantee="at_least_once")
    crash_points.arm(crash_directory, "topic.task_written")
    assert run(spark, job, sink_options(job)) == "", "Spark tries the task again by itself"
    assert crash_points.was_hit(crash_directory, "topic.task_written")
    assert copied(job) > EXPECTED


@pytest.mark.slow
def test_at_most_once_loses_what_a_killed_task_had_not_written(
    spark: SparkSession, crash_directory: Path, job: CopyJob
) -> None:
    job = with_(job, guarantee="at_most_once")
    options = sink_options(job)
    claim_ownership(options)
    crash_points.arm(crash_directory, "topic.task_written")
    assert run(spark, job, options) == ""
    assert crash_points.was_hit(crash_directory, "topic.task_written")
    assert copied(job) < EXPECTED


def test_two_queries_with_one_name(spark: SparkSession, job: CopyJob, tmp_path: Path) -> None:
    """The first is fenced by the second's claim and stops for good; nothing is doubled."""
    first_options = sink_options(job)
    claim_ownership(first_options)
    second_options = sink_options(job)
    claim_ownership(second_options)
    assert "[PENSTOCK_SINK_FENCED]" in run(spark, job, first_options)
    assert "[PENSTOCK_SINK_FENCED]" in run(spark, job, first_options), "trying again does not bring it back"
    assert run(spark, job, second_options) == ""
    assert copied(job) == EXPECTED

"""Connectors end to end: a worker's runner, Spark, a broker, and files."""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from penstock.connect.runtime.runner import SinkOffsets, SourceOffsets, State
from penstock.connect.runtime.spark_jobs import JobCancelled, SparkJobs, TaskFailed
from penstock.core.ids import TopicPartition
from tests import crash_points
from tests.conftest import BrokerStarter, RunningBroker
from tests.pipeline.connect.connector_runs import Worker, jobs_of
from tests.pipeline.topic_contents import contents
from tests.pipeline.topic_feed import Sent, TopicFeed

EXACTLY_ONCE = {"exactly_once_source_support": "enabled"}
LINES = 2000
RENAMING = {
    "transforms": "route",
    "transforms.route.type": "org.apache.kafka.connect.transforms.RegexRouter",
    "transforms.route.regex": "raw-(.*)",
    "transforms.route.replacement": "$1",
}


@pytest.fixture(scope="module")
def jobs(spark: SparkSession) -> SparkJobs:
    return jobs_of(spark)


@pytest.fixture
def name() -> str:
    return f"connector-{uuid.uuid4().hex}"


def source(file: Path, topic: str, **config: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSource", "file": str(file), "topic": topic, **config}


def sink(file: Path, topic: str, **config: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSink", "file": str(file), "topics": topic, **config}


def source_offsets(worker: Worker, name: str, config: Mapping[str, str]) -> SourceOffsets:
    offsets = worker.runner.offsets(name, config)
    assert not isinstance(offsets, Mapping)
    return offsets


def sink_offsets(worker: Worker, name: str, config: Mapping[str, str]) -> SinkOffsets:
    offsets = worker.runner.offsets(name, config)
    assert isinstance(offsets, Mapping)
    return offsets


def process_id(_task: int) -> int:
    return os.getpid()


def test_jobs_share_processes(jobs: SparkJobs) -> None:
    """Each new process costs a job more than some ten thousand records."""
    processes = {jobs.run("processes", process_id, [number])[0] for number in range(12)}
    assert len(processes) < 12


def test_a_file_goes_through_a_topic_into_a_file(
    jobs: SparkJobs, broker_under_test: RunningBroker, tmp_path: Path, name: str
) -> None:
    topic = f"topic-{uuid.uuid4().hex}"
    lines = "".join(f"line {number}\n" for number in range(LINES))
    (tmp_path / "in.txt").write_text(lines)
    worker = Worker(jobs, broker_under_test.bootstrap_servers, **EXACTLY_ONCE)
    created = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
    config = source(tmp_path / "in.txt", f"raw-{topic}", **created, **RENAMING)
    copying = sink(tmp_path / "out.txt", topic, guarantee="exactly_once")
    with worker.running(f"{name}-in", config) as reading, worker.running(f"{name}-out", copying) as writing:
        reading.wait_for_records(LINES)
        writing.wait_for_records(LINES)
        assert reading.topics == writing.topics == {topic}
        with (tmp_path / "in.txt").open("a") as more:
            more.write("last\n")
        writing.wait_for_records(LINES + 1)
    assert (tmp_path / "out.txt").read_text() == lines + "last\n"
    ((partition, offset),) = source_offsets(worker, f"{name}-in", config)
    assert partition == {"filename": str(tmp_path / "in.txt")}
    assert offset["position"] == len(lines) + len("last\n")
    # Two transactions, so two markers; the second one is no record to wait for.
    assert sink_offsets(worker, f"{name}-out", copying)[TopicPartition(topic, 0)] in (LINES + 2, LINES + 3)


@pytest.mark.slow
def test_a_changed_offset_is_where_the_connector_goes_on(
    jobs: SparkJobs, broker_under_test: RunningBroker, tmp_path: Path, name: str
) -> None:
    feed = TopicFeed(broker_under_test.bootstrap_servers)
    topic = feed.create(partitions=2)
    feed.numbers(topic, range(10), partitions=2)
    (tmp_path / "in.txt").write_text("one\ntwo\n")
    worker = Worker(jobs, broker_under_test.bootstrap_servers, **EXACTLY_ONCE)
    for guarantee in ("at_least_once", "exactly_once"):
        config = sink(tmp_path / guarantee, topic, guarantee=guarantee)
        with worker.running(f"{name}-{guarantee}", config) as writing:
            writing.wait_for_records(10)
        changes = {TopicPartition(topic, 0): 4, TopicPartition(topic, 1): None}
        answer = worker.runner.alter_offsets(f"{name}-{guarantee}", config, changes)
        assert answer == "The offsets for this connector have been altered successfully"
        assert worker.runner.offsets(f"{name}-{guarantee}", config) == {(topic, 0): 4}
        with worker.running(f"{name}-{guarantee}", config) as writing:
            writing.wait_for_records(6)
        found = Counter((tmp_path / guarantee).read_text().split())
        assert {value for value, count in found.items() if count == 2} == {"8", "1", "3", "5", "7", "9"}
    config = source(tmp_path / "in.txt", feed.create())
    with worker.running(name, config) as reading:
        reading.wait_for_records(2)
    assert worker.runner.alter_offsets(name, config, None).endswith("reset successfully")
    assert worker.runner.offsets(name, config) == []
    worker.runner.alter_offsets(name, config, [({"filename": config["file"]}, {"position": 4})])
    with worker.running(name, config) as reading:
        reading.wait_for_records(1)
    values = [record.value for record in contents(broker_under_test.bootstrap_servers, config["topic"])]
    assert values == [b"one", b"two", b"two"]


@pytest.mark.slow
def test_a_task_whose_process_dies_is_run_again(
    jobs: SparkJobs, broker_under_test: RunningBroker, tmp_path: Path, name: str, crash_directory: Path
) -> None:
    feed = TopicFeed(broker_under_test.bootstrap_servers)
    topic = feed.create(partitions=2)
    feed.numbers(topic, range(100), partitions=2)
    config = sink(tmp_path / "out.txt", topic, guarantee="exactly_once", **{"tasks.max": "2"})
    crash_points.arm(crash_directory, "connect.sink_task_written")
    with Worker(jobs, broker_under_test.bootstrap_servers).running(name, config) as writing:
        restarting = writing.wait_for_state(State.RESTARTING)
        writing.wait_for_records(100)
    assert crash_points.was_hit(crash_directory, "connect.sink_task_written")
    assert restarting.details is not None
    assert restarting.details["attempt"] == 1
    assert sorted(map(int, (tmp_path / "out.txt").read_text().split())) == list(range(100))


def test_bad_records_stop_a_connector_or_become_dead_letters(
    jobs: SparkJobs, broker_under_test: RunningBroker, tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    feed = TopicFeed(broker_under_test.bootstrap_servers)
    topic, letters = feed.create(), f"letters-{uuid.uuid4().hex}"
    now_ms = int(time.time() * 1000)
    feed.send(topic, [Sent(0, None, value, now_ms) for value in (b'{"a":1}', b"{bad", b'{"a":2}')])
    config = sink(
        tmp_path / "out.txt",
        topic,
        format="json",
        **{
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter.schemas.enable": "false",
        },
    )
    worker = Worker(jobs, broker_under_test.bootstrap_servers)
    with worker.running(name, config) as writing:
        failed = writing.wait_for_state(State.FAILED, task=0)
    assert failed.trace is not None
    assert "Tolerance exceeded in error handler" in failed.trace
    tolerant = {
        "errors.tolerance": "all",
        "errors.log.enable": "true",
        "errors.deadletterqueue.topic.name": letters,
        "errors.deadletterqueue.topic.replication.factor": "1",
        "errors.deadletterqueue.context.headers.enable": "true",
    }
    with worker.running(name, {**config, **tolerant}) as writing:
        writing.wait_for_records(3)
    assert [json.loads(line) for line in (tmp_path / "out.txt").read_text().splitlines()] == [{"a": 1}, {"a": 2}]
    (letter,) = contents(broker_under_test.bootstrap_servers, letters)
    assert letter.value == b"{bad"
    assert dict(letter.headers)["__connect.errors.offset"] == b"1"
    assert f"Error encountered in task {name}-0" in caplog.text


def test_an_earlier_run_of_a_source_commits_nothing_more(
    jobs: SparkJobs, broker_under_test: RunningBroker, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "in.txt"
    file.write_text("one\n")
    worker = Worker(jobs, broker_under_test.bootstrap_servers, **EXACTLY_ONCE)
    config = source(file, TopicFeed(broker_under_test.bootstrap_servers).create())
    with worker.running(name, config) as earlier:
        earlier.wait_for_records(1)
        worker.runner.fence(name, config, 1)
        with file.open("a") as more:
            more.write("two\n")
        failed = earlier.wait_for_state(State.FAILED, task=0)
    assert failed.trace is not None
    assert "another run has taken over" in failed.trace
    with worker.running(name, config) as later:
        later.wait_for_records(1)
    values = [record.value for record in contents(broker_under_test.bootstrap_servers, config["topic"])]
    assert values == [b"one", b"two"]


@pytest.mark.slow
def test_topics_that_appear_later_are_found_and_deleted_ones_begin_again(
    jobs: SparkJobs, broker_under_test: RunningBroker, tmp_path: Path, name: str
) -> None:
    feed = TopicFeed(broker_under_test.bootstrap_servers)
    prefix = uuid.uuid4().hex
    config = {
        **sink(tmp_path / "out.txt", ""),
        "topics": "",
        "topics.regex": f"{prefix}-.*",
        "consumer.override.metadata.max.age.ms": "100",
    }
    with Worker(jobs, broker_under_test.bootstrap_servers).running(name, config) as writing:
        for number in range(2):
            feed.numbers(feed.create(f"{prefix}-{number}"), range(number, number + 1))
            writing.wait_for_records(number + 1)
        feed.numbers(f"{prefix}-0", range(2, 4))
        writing.wait_for_records(4)
        feed.delete(f"{prefix}-0")
        feed.numbers(feed.create(f"{prefix}-0"), range(4, 5))
        writing.wait_for_records(5)
    assert (tmp_path / "out.txt").read_text().split() == ["0", "1", "2", "3", "4"]


def test_a_mistake_in_a_configuration_is_shown(
    jobs: SparkJobs, broker_under_test: RunningBroker, tmp_path: Path, name: str
) -> None:
    config = sink(tmp_path / "out.txt", "orders", **{"consumer.override.auto.offset.reset": "middle"})
    with Worker(jobs, broker_under_test.bootstrap_servers).running(name, config) as writing:
        failed = writing.wait_for_state(State.FAILED)
    assert failed.trace is not None
    assert "auto.offset.reset" in failed.trace


@pytest.mark.slow
def test_a_connector_waits_for_its_broker(
    jobs: SparkJobs, start_broker: BrokerStarter, tmp_path: Path, name: str
) -> None:
    with start_broker({}) as broker:
        feed = TopicFeed(broker.bootstrap_servers)
        topic = feed.create()
        feed.numbers(topic, range(10))
        config = sink(
            tmp_path / "out.txt",
            topic,
            guarantee="exactly_once",
            **{"consumer.override.default.api.timeout.ms": "3000", "consumer.override.request.timeout.ms": "3000"},
        )
        with Worker(jobs, broker.bootstrap_servers).running(name, config) as writing:
            writing.wait_for_records(10)
            broker.kill()
            restarting = writing.wait_for_state(State.RESTARTING)
            assert restarting.details is not None
            assert restarting.details["condition"] == "PENSTOCK_BROKER_UNREACHABLE"
            broker.start()
            feed.numbers(topic, range(10, 20))
            writing.wait_for_records(20)
    assert sorted(map(int, (tmp_path / "out.txt").read_text().split())) == list(range(20))


@pytest.mark.slow
def test_a_source_goes_on_when_its_broker_returns(
    jobs: SparkJobs, start_broker: BrokerStarter, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "in.txt"
    file.write_text("0\n")
    quick = {"default.api.timeout.ms": "3000", "request.timeout.ms": "3000", "delivery.timeout.ms": "3000"}
    with start_broker({}) as broker:
        overrides = {f"producer.override.{setting}": value for setting, value in quick.items()}
        config = source(file, TopicFeed(broker.bootstrap_servers).create(), **overrides)
        worker = Worker(jobs, broker.bootstrap_servers, **EXACTLY_ONCE)
        with worker.running(name, config) as reading:
            reading.wait_for_records(1)
            broker.kill()
            with file.open("a") as more:
                more.writelines(f"{number}\n" for number in range(1, 100))
            reading.wait_for_state(State.RESTARTING)
            broker.start()
            reading.wait_for_records(100)
        found = contents(broker.bootstrap_servers, config["topic"])
    assert sorted(int(record.value or b"") for record in found) == list(range(100))


def task_that_fails(_task: Any) -> None:
    raise ValueError("for good")


def task_that_waits(path: str) -> None:
    Path(path).touch()
    time.sleep(60)


def test_a_job_reports_what_a_task_raised_and_is_cancelled(jobs: SparkJobs, tmp_path: Path) -> None:
    with pytest.raises(TaskFailed, match="for good"):
        jobs.run("jobs", task_that_fails, [1, 2])
    begun = tmp_path / "begun"

    def cancel() -> None:
        while not begun.exists():
            time.sleep(0.02)
        jobs.cancel("jobs")

    cancelling = threading.Thread(target=cancel)
    cancelling.start()
    with pytest.raises(JobCancelled):
        jobs.run("jobs", task_that_waits, [str(begun)])
    cancelling.join()


@pytest.mark.slow
def test_a_sink_that_becomes_exactly_once_goes_on_where_its_group_was(
    jobs: SparkJobs, broker_under_test: RunningBroker, tmp_path: Path, name: str
) -> None:
    feed = TopicFeed(broker_under_test.bootstrap_servers)
    topic = feed.create()
    worker = Worker(jobs, broker_under_test.bootstrap_servers)
    for number, guarantee in enumerate(("at_least_once", "exactly_once")):
        feed.numbers(topic, range(10 * number, 10 * number + 10))
        with worker.running(name, sink(tmp_path / "out.txt", topic, guarantee=guarantee)) as writing:
            writing.wait_for_records(10)
    assert (tmp_path / "out.txt").read_text().split() == [str(number) for number in range(20)]

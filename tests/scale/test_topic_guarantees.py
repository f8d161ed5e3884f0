"""Topic to topic on Apache Kafka and a cluster, under each guarantee: drivers, executors and the broker are killed."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from penstock.testing.apache_kafka import ApacheKafka
from tests.pipeline.topic_feed import TopicFeed
from tests.scale.cluster_pipeline import ClusterPipeline, ids_in_topic
from tests.scale.pipeline_process import await_that
from tests.scale.standalone_cluster import StandaloneCluster

pytestmark = [pytest.mark.scale, pytest.mark.timeout(1800)]

# A task of the batch is still writing; all is written and nothing committed; all is committed and Spark does not know.
DRIVER_KILLS = ("topic.task_written", "topic.before_end_txn", "topic.after_end_txn")


def test_exactly_once_survives_kills_of_drivers_an_executor_and_the_broker(
    cluster: StandaloneCluster, apache_kafka: ApacheKafka, tmp_path: Path
) -> None:
    sink = TopicFeed(apache_kafka.bootstrap_servers).create(partitions=3)
    pipeline = ClusterPipeline(tmp_path, cluster.url, apache_kafka, sink=f"{{topic: {sink}, key: id}}")
    for step in DRIVER_KILLS:
        pipeline.kill_at(step)
    with pipeline.run() as driver:
        pipeline.await_all(driver)
        executor = psutil.Process(cluster.executor_pids()[-1])
        pipeline.kill_others_at("topic.task_written", executor.pid)
        await_that("the executor is gone", lambda: not executor.is_running())
        pipeline.await_all(driver)
        # What the batch has written is acknowledged, and is not committed.
        pipeline.kill_others_at("topic.before_end_txn", apache_kafka.pid)
        apache_kafka.kill()  # for whoever looks after the process: it is dead already
        apache_kafka.start()
        pipeline.await_all(driver)
        assert driver.terminate() == 0, driver.said()
    assert ids_in_topic(apache_kafka.bootstrap_servers, sink) == pipeline.good
    pipeline.require_dead_letters()


def one_partition_pipeline(
    cluster: StandaloneCluster, kafka: ApacheKafka, directory: Path, sink: str, guarantee: str
) -> ClusterPipeline:
    """All records of a batch are written by one task, so that none is written by another while the one is killed."""
    return ClusterPipeline(
        directory, cluster.url, kafka, sink=f"{{topic: {sink}}}", guarantee=guarantee, keep_broken=False
    )


def test_at_least_once_repeats_and_loses_nothing(
    cluster: StandaloneCluster, apache_kafka: ApacheKafka, tmp_path: Path
) -> None:
    sink = TopicFeed(apache_kafka.bootstrap_servers).create()
    pipeline = one_partition_pipeline(cluster, apache_kafka, tmp_path, sink, "at_least_once")
    pipeline.kill_at("topic.before_commit")
    pipeline.finish()
    assert ids_in_topic(apache_kafka.bootstrap_servers, sink) > pipeline.good


def test_at_most_once_loses_and_repeats_nothing(
    cluster: StandaloneCluster, apache_kafka: ApacheKafka, tmp_path: Path
) -> None:
    """Killed when the batch is on record, before its last records have left the task."""
    sink = TopicFeed(apache_kafka.bootstrap_servers).create()
    pipeline = one_partition_pipeline(cluster, apache_kafka, tmp_path, sink, "at_most_once")
    pipeline.kill_at("topic.task_written")
    pipeline.finish()
    found = ids_in_topic(apache_kafka.bootstrap_servers, sink)
    assert found < pipeline.good
    assert found, "the batches behind the lost one are written"

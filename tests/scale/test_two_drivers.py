"""Drivers with one pipeline name on Apache Kafka and a cluster: each is fenced by the next, and nothing comes twice."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from penstock.core.exit_codes import ExitCode
from penstock.testing.apache_kafka import ApacheKafka
from tests.pipeline.topic_feed import TopicFeed
from tests.scale.cluster_pipeline import ClusterPipeline, ids_in_topic
from tests.scale.pipeline_process import PipelineProcess, await_that
from tests.scale.standalone_cluster import StandaloneCluster

pytestmark = [pytest.mark.scale, pytest.mark.timeout(1800)]

FREEZES_MAX = 20


def test_every_driver_is_fenced_by_the_next(
    cluster: StandaloneCluster, apache_kafka: ApacheKafka, tmp_path: Path
) -> None:
    """The first stands still in the middle of a batch, as a machine does that everybody takes for dead.

    The second one has a copy of its checkpoint. The third one shares the second's, as when a person starts a pipeline
    that runs already.
    """
    sink = TopicFeed(apache_kafka.bootstrap_servers).create(partitions=3)
    pipeline = ClusterPipeline(tmp_path, cluster.url, apache_kafka, sink=f"{{topic: {sink}, key: id}}")
    with pipeline.run() as first:
        first.await_start()
        freeze_in_a_batch(pipeline, first)
        shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
        with pipeline.run(checkpoint="copy") as second:
            pipeline.await_all(second)
            first.thaw()
            assert first.wait() == ExitCode.FENCED, first.said()
            with pipeline.run(checkpoint="copy") as third:
                third.await_start()
                pipeline.send_portion()
                assert second.wait() == ExitCode.FENCED, second.said()
                pipeline.await_all(third)
                assert third.terminate() == ExitCode.OK, third.said()
    assert ids_in_topic(apache_kafka.bootstrap_servers, sink) == pipeline.good
    pipeline.require_dead_letters()


def freeze_in_a_batch(pipeline: ClusterPipeline, driver: PipelineProcess) -> None:
    """Spark notes a batch when it begins with it, and again when it is committed."""
    begun, committed = (pipeline.directory / "checkpoint" / name for name in ("offsets", "commits"))
    for _ in range(FREEZES_MAX):
        pipeline.send_portion()
        await_that("a batch begins", lambda: last_number(begun) > last_number(committed))
        driver.freeze()
        if last_number(begun) > last_number(committed):
            return
        driver.thaw()
    raise AssertionError(f"{FREEZES_MAX} batches were over before their driver stood still")


def last_number(directory: Path) -> int:
    return max((int(file.name) for file in directory.glob("*") if file.name.isdigit()), default=-1)

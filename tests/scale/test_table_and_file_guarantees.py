"""Topic to PostgreSQL and to files on Apache Kafka and a cluster, exactly once, killed between write and commit."""

from __future__ import annotations

import signal
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from penstock.testing.apache_kafka import ApacheKafka
from tests.pipeline.table_job import rows_of
from tests.postgres_server import PostgresServer
from tests.scale.cluster_pipeline import ClusterPipeline
from tests.scale.pipeline_process import PipelineProcess, await_that
from tests.scale.standalone_cluster import StandaloneCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.scale, pytest.mark.timeout(1800)]

AWAIT_S = 60
FREEZES_MAX = 20


def test_a_table_with_a_watermark_and_repeats(
    cluster: StandaloneCluster, apache_kafka: ApacheKafka, postgres: PostgresServer, tmp_path: Path
) -> None:
    """A driver, an executor and the database are killed; repeats are recognised by state that outlives all of them."""
    pipeline = ClusterPipeline(
        tmp_path,
        cluster.url,
        apache_kafka,
        sink=f'{{table: doubled, url: "{postgres.url}"}}',
        source_settings=("timestamp: at", "watermark: 1 hour", "dedupe: [id]"),
    )
    pipeline.kill_at("table.after_database_commit", with_repeats=True)  # and Spark does not know
    with pipeline.run() as driver:
        pipeline.await_all(driver)
        executor = psutil.Process(cluster.executor_pids()[-1])
        pipeline.kill_others_at("table.staged", executor.pid, with_repeats=True)
        await_that("the executor is gone", lambda: not executor.is_running())
        pipeline.await_all(driver)
        pipeline.kill_others_at("table.before_database_commit", postgres.pid, with_repeats=True)
        postgres.await_death(AWAIT_S)
        postgres.start()
        pipeline.await_all(driver)
        assert driver.terminate() == 0, driver.said()
    found = rows_of(postgres.url, "SELECT id, doubled FROM doubled")
    assert Counter(found) == Counter((number, 3.0) for number in pipeline.good.elements())
    pipeline.require_dead_letters()


def test_files(
    cluster: StandaloneCluster, apache_kafka: ApacheKafka, spark_with_connector: SparkSession, tmp_path: Path
) -> None:
    """A file counts when the directory's own list of files says so, which is what Spark's readers go by."""
    directory = tmp_path / "doubled"
    pipeline = ClusterPipeline(tmp_path, cluster.url, apache_kafka, sink=f"{{files: {directory}, format: json}}")
    with pipeline.run() as driver:
        driver.await_start()
        freeze_while_files_are_not_listed(pipeline, driver, directory)
        driver.kill()
        assert driver.wait() == -signal.SIGKILL
    pipeline.kill_at("batch.written")  # and listed, and Spark does not know that its batch is done
    pipeline.finish()
    rows = spark_with_connector.read.schema("id BIGINT, doubled DOUBLE").json(str(directory)).collect()
    assert Counter((row["id"], row["doubled"]) for row in rows) == Counter(
        (number, 3.0) for number in pipeline.good.elements()
    )
    pipeline.require_dead_letters()


def freeze_while_files_are_not_listed(pipeline: ClusterPipeline, driver: PipelineProcess, directory: Path) -> None:
    for _ in range(FREEZES_MAX):
        pipeline.send_portion()
        await_that("a file is written", lambda: bool(not_listed(directory)))
        driver.freeze()
        if not_listed(directory):
            return
        driver.thaw()
    raise AssertionError(f"{FREEZES_MAX} times the files were listed before their driver stood still")


def not_listed(directory: Path) -> set[str]:
    """Files that were written and do not count. The list is read last: whatever it has by then was written before."""
    written = {file.name for file in directory.glob("part-*")}
    lists = [file.read_text() for file in (directory / "_spark_metadata").glob("[0-9]*")]
    return {name for name in written if not any(name in text for text in lists)}

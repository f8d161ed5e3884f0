"""What these tests share: both brokers, a Spark cluster, PostgreSQL, and a Spark session with Spark's own connector."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from penstock.pipeline.spark import java_archive
from penstock.testing import Broker
from penstock.testing.apache_kafka import ApacheKafka
from penstock.testing.java import JavaMissingError
from penstock.testing.spark_connector import connector_conf
from tests.conftest import optional_part_missing
from tests.pipeline.topic_feed import TopicFeed
from tests.postgres_server import PostgresServer, running_postgres
from tests.scale.standalone_cluster import START_S_MAX, StandaloneCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The cleaner looks for something to do as often as a test does.
_EAGER_CLEANER = {"log.cleaner.backoff.ms": "100"}


@pytest.fixture(scope="session")
def spark_with_connector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from pyspark import SparkContext

    from penstock.pipeline.spark.session import SparkSettings, end_jvm, start

    if SparkContext._active_spark_context is not None:
        pytest.fail("another session, without the connector, runs in this process: run tests/scale by itself")
    os.environ.setdefault(java_archive.POLICY_VARIABLE, "use")
    try:
        conf = {**connector_conf(), "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
        session = start(SparkSettings(name="penstock scale tests", conf=conf))
    except JavaMissingError as missing:
        optional_part_missing(str(missing))
    yield session
    session.stop()
    end_jvm()


@pytest.fixture(scope="session")
def apache_kafka() -> Iterator[ApacheKafka]:
    with ExitStack() as stack:
        try:
            kafka = stack.enter_context(ApacheKafka(config=_EAGER_CLEANER, start_timeout_s=START_S_MAX))
        except JavaMissingError as missing:
            optional_part_missing(str(missing))
        yield kafka


@pytest.fixture(scope="session", params=["penstock", "apache-kafka"])
def feed(request: pytest.FixtureRequest) -> TopicFeed:
    """Topics of one broker, then of the other."""
    if request.param == "penstock":
        broker: Broker = request.getfixturevalue("penstock_broker")
        return TopicFeed(broker.bootstrap_servers)
    kafka: ApacheKafka = request.getfixturevalue("apache_kafka")
    return TopicFeed(kafka.bootstrap_servers)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with StandaloneCluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    with running_postgres(tmp_path_factory.mktemp("postgres")) as server:
        yield server

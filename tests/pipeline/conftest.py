"""The broker and the engine that pipeline tests share. Their Spark session is in `tests/spark_session.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.core.exit_codes import ExitCode
from penstock.testing import Broker
from tests.conftest import RunningBroker
from tests.pipeline.penstock_commands import penstock as command
from tests.pipeline.penstock_commands import running
from tests.pipeline.pipeline_runs import Pipelines


@pytest.fixture(scope="session")
def penstock(penstock_broker: Broker) -> Broker:
    """The broker that all pipeline tests share: each takes topics of its own."""
    return penstock_broker


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory in which `penstock up` runs, with a topic orders."""
    directory = tmp_path_factory.mktemp("up")
    with running(directory, "up", "--listen", "127.0.0.1:0", "--json") as process:
        process.wait_for("ready")
        assert command(directory, "topic", "create", "orders").returncode == 0
        yield directory
        assert process.terminate() == ExitCode.OK
        assert process.process.stderr is not None
        assert process.process.stderr.read() == ""


@pytest.fixture
def pipelines(spark: SparkSession, broker_under_test: RunningBroker, tmp_path: Path) -> Pipelines:
    return Pipelines(spark, broker_under_test.bootstrap_servers, tmp_path)

"""One tuned Spark session and one broker for all pipeline tests of a run: it starts slowly."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.core.exit_codes import ExitCode
from penstock.pipeline import crash_points
from penstock.pipeline.spark import internals, java_archive
from penstock.pipeline.spark.java import JavaMissingError
from penstock.testing import Broker
from tests.conftest import optional_part_missing
from tests.pipeline.penstock_commands import penstock as command
from tests.pipeline.penstock_commands import running

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def crash_directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where tests arm crash points for the Python processes of the session, which have it in their environment."""
    directory = tmp_path_factory.mktemp("crash-points")
    os.environ[crash_points.ENVIRONMENT_VARIABLE] = str(directory)
    yield directory
    del os.environ[crash_points.ENVIRONMENT_VARIABLE]


@pytest.fixture(scope="session")
def spark(crash_directory: Path) -> Iterator[SparkSession]:
    """The session that pipelines get on one machine. Tests stop their own queries and take names of their own."""
    from penstock.pipeline.spark.session import end_jvm, start_session

    # An archive that is there is used, but a test run leaves no process behind to make one.
    os.environ.setdefault(java_archive.POLICY_VARIABLE, "use")
    try:
        session = start_session("penstock tests")
    except JavaMissingError as missing:
        optional_part_missing(str(missing))
    yield session
    session.stop()
    end_jvm()


@pytest.fixture(autouse=True)
def _shared_session_is_active(request: pytest.FixtureRequest) -> None:
    """Spark looks for data sources in the thread's active session, and a pipeline makes its own the active one."""
    if "spark" in request.fixturenames:
        session = request.getfixturevalue("spark")
        internals.activate(session)


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

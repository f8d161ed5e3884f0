"""One tuned Spark session for all tests of a process: it starts slowly. Registered once, by `tests/conftest.py`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests import crash_points

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Several sessions run beside each other, and a JVM touches new memory as long as it has some. They end before the
# optimizing compiler has paid for itself, or the verification of Spark's classes for anything.
_MEMORY: Final = "1g"
_JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"


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
    from penstock.pipeline.spark import java_archive
    from penstock.pipeline.spark.java import JavaMissingError
    from penstock.pipeline.spark.session import SparkSettings, end_jvm, start
    from tests.conftest import optional_part_missing

    # An archive that is there is used, but a test run leaves no process behind to make one.
    os.environ.setdefault(java_archive.POLICY_VARIABLE, "use")
    try:
        session = start(
            SparkSettings(
                name="penstock tests", driver_memory=_MEMORY, conf={"spark.driver.extraJavaOptions": _JAVA_OPTIONS}
            )
        )
    except JavaMissingError as missing:
        optional_part_missing(str(missing))
    yield session
    session.stop()
    end_jvm()


@pytest.fixture(autouse=True)
def _shared_session_is_active(request: pytest.FixtureRequest) -> None:
    """Spark looks for data sources in the thread's active session, and a pipeline makes its own the active one."""
    if "spark" in request.fixturenames:
        from penstock.pipeline.spark import internals

        session = request.getfixturevalue("spark")
        internals.activate(session)

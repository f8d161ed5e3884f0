"""The session that pipelines get on one machine, with Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.pipeline.spark import java_archive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


def notes_of(path: Path, at_least: int) -> list[dict[str, Any]]:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        lines = path.read_text().splitlines() if path.exists() else []
        if len(lines) >= at_least:
            return [json.loads(line) for line in lines]
        time.sleep(0.02)
    pytest.fail(f"fewer than {at_least} batches in 120 s")


def start_clock(spark: SparkSession, directory: Path, partitions: int = 2) -> StreamingQuery:
    from tests.pipeline.clock_source import ClockSource

    spark.dataSource.register(ClockSource)
    source = spark.readStream.format("clock").option("partitions", str(partitions)).load()
    writer = source.writeStream.format("clock").option("notes", str(directory / "notes"))
    return writer.option("checkpointLocation", str(directory / "checkpoint")).start()


@pytest.fixture
def clock(spark: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """A query of small batches; where it notes them."""
    query = start_clock(spark, tmp_path)
    yield tmp_path / "notes"
    query.stop()


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_settings_are_in_force(spark: SparkSession) -> None:
    assert spark.sparkContext.master == f"local[{os.cpu_count()},4]"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == str(max(2, os.cpu_count() or 1))
    assert spark.sparkContext.uiWebUrl is None
    assert "SPARK_HOME" not in os.environ


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
def test_workers_are_forked_ready_made_and_reused(clock: Path) -> None:
    notes = notes_of(clock, 12)
    assert notes[-1]["frozen"] > 50_000  # what was preloaded is out of the collector's sight
    early, late = (set().union(*(note["pids"] for note in part)) for part in (notes[:6], notes[6:]))
    assert early & late
    (daemon,) = notes[-1]["parents"]
    zygote = parent_of(daemon)
    assert b"penstock.pipeline.spark.worker_zygote" in Path(f"/proc/{zygote}/cmdline").read_bytes()
    assert len(list(Path(f"/proc/{zygote}/task").iterdir())) == 1


@pytest.mark.slow
def test_checkpoints_have_no_checksum_of_sparks_own(clock: Path) -> None:
    notes_of(clock, 3)
    names = {path.name for path in (clock.parent / "checkpoint" / "offsets").iterdir()}
    assert "0" in names
    assert {name for name in names if not name.startswith(".")} <= {str(number) for number in range(1000)}


def test_a_killed_worker_is_a_retried_task(spark: SparkSession) -> None:
    """local[N] alone would fail the job at the first."""

    def once(numbers: Iterable[int]) -> Iterator[int]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        yield from numbers

    assert spark.sparkContext.parallelize(range(4), 2).mapPartitions(once).collect() == [0, 1, 2, 3]


def test_a_program_finds_the_functions_of_mllib(spark: SparkSession) -> None:
    """They are an extension, which sessions for SQL alone leave out."""
    from pyspark.ml.functions import array_to_vector, vector_to_array
    from pyspark.sql.functions import col

    frame = spark.range(1).selectExpr("array(1.0D, 2.0D) AS numbers")
    [row] = frame.select(vector_to_array(array_to_vector(col("numbers"))).alias("back")).collect()
    assert row.back == [1.0, 2.0]


def test_strings_hash_alike_in_every_worker(spark: SparkSession) -> None:
    hashes = spark.sparkContext.parallelize(range(4), 4).map(lambda _number: hash("penstock")).collect()
    assert len(set(hashes)) == 1


PROGRAM = """
import os, sys, time
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from penstock.pipeline.spark.session import start_session
from tests.pipeline.test_session import notes_of, start_clock

spark = start_session("killed")
directory = Path(sys.argv[1])
query = start_clock(spark, directory)
notes_of(directory / "notes", 3)
print("running", flush=True)
if sys.argv[3] == "end":
    query.stop()
    spark.stop()
else:
    time.sleep(600)
"""


def processes_of_group(pids: set[int]) -> set[int]:
    """All descendants, by what /proc says now."""
    children: dict[int, set[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                children.setdefault(parent_of(int(entry.name)), set()).add(int(entry.name))
            except (FileNotFoundError, ProcessLookupError):
                continue
    found, left = set(pids), list(pids)
    while left:
        for child in children.get(left.pop(), ()):
            if child not in found:
                found.add(child)
                left.append(child)
    return found


@pytest.mark.kills
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")
@pytest.mark.parametrize("how", ["end", "kill"])
def test_nothing_outlives_the_driver_and_nothing_is_said(how: str, tmp_path: Path) -> None:
    root = str(Path(__file__).parents[2])
    driver = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path), root, how],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, java_archive.POLICY_VARIABLE: "use", "PYTHONPATH": root, "TMPDIR": str(tmp_path)},
    )
    assert driver.stdout is not None
    assert driver.stdout.readline() == "running\n"
    processes = processes_of_group({driver.pid})
    assert len(processes) > 5
    if how == "kill":
        driver.kill()
    _, said = driver.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while living := {pid for pid in processes if Path(f"/proc/{pid}").exists()}:
        assert time.monotonic() < deadline, [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in living]
        time.sleep(0.05)
    if how == "end":
        assert driver.returncode == 0
        assert said == ""
    assert not list(tmp_path.glob("penstock-*"))

"""Where a JVM puts its files, and what becomes of one that does not start."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.pipeline.spark import java, jvm
from penstock.pipeline.spark.java import JavaRuntime
from penstock.pipeline.spark.jvm import Jvm


def test_temporary_files_are_in_the_directory_unless_sockets_would_not_fit(tmp_path: Path) -> None:
    assert jvm._temporary_files_in(Path("/tmp/own")) == ["-Djava.io.tmpdir=/tmp/own"]
    assert jvm._temporary_files_in(Path("/tmp") / ("long" * 20)) == []


def test_a_start_that_is_broken_off_leaves_no_jvm_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has not come to where it waits for the end of its input, and might never come there."""

    def interrupted(_seconds: float) -> None:
        raise KeyboardInterrupt

    starting = Jvm(subprocess.Popen(["sleep", "600"], stdin=subprocess.PIPE), tmp_path / "own")
    monkeypatch.setattr("penstock.pipeline.spark.jvm.time.sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        starting.gateway()
    assert starting.process.poll() == -signal.SIGKILL


def javas() -> list[JavaRuntime]:
    """The machine's own and the bundled one."""
    return [JavaRuntime(home, version) for home in java._installed_homes() if (version := java._java_version(home))]


@pytest.mark.parametrize("runtime", javas(), ids=lambda runtime: f"java{runtime.version}")
def test_a_start_prints_nothing(runtime: JavaRuntime, tmp_path: Path) -> None:
    """Hadoop starts `chmod` for a file that it creates, which is when Java 25 warns about a launch mechanism."""
    if runtime.version < java.OLDEST_JAVA:
        pytest.skip("Spark does not run on it")
    pytest.importorskip("pyspark")
    (tmp_path / "core-site.xml").write_text("<configuration/>")
    logging = Path(jvm.__file__).with_name("log4j2.properties")
    command = [str(runtime.java), *jvm.jvm_options(runtime, "256m"), f"-Dlog4j2.configurationFile={logging.as_uri()}"]
    command += ["-Dpenstock.log.level=off", "-cp", jvm.class_path(jvm.pyspark_home(), tmp_path)]
    command += ["org.apache.hadoop.fs.FsShell", "-touchz", (tmp_path / "created").as_uri()]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert (tmp_path / "created").exists()


def test_chmod_starts_by_vfork_where_java_says_nothing_about_it() -> None:
    flag = "-Djdk.lang.Process.launchMechanism=VFORK"
    assert (flag in jvm.jvm_options(JavaRuntime(Path("/j"), 17), "1g")) == (sys.platform == "linux")
    assert flag not in jvm.jvm_options(JavaRuntime(Path("/j"), 25), "1g")

"""Where a JVM puts its files, and what becomes of one that does not start."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import pytest

from penstock.pipeline.spark import jvm
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

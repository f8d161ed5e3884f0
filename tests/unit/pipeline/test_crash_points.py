from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import crash_points

STEP = "topic.before_end_txn"


def arrive(directory: Path | None) -> int:
    environment = {k: v for k, v in os.environ.items() if k != crash_points.ENVIRONMENT_VARIABLE}
    if directory is not None:
        environment[crash_points.ENVIRONMENT_VARIABLE] = str(directory)
    program = f"from penstock.pipeline.crash_points import reached; reached({STEP!r})"
    return subprocess.run([sys.executable, "-c", program], env=environment).returncode


def test_an_armed_step_kills_once(tmp_path: Path) -> None:
    crash_points.arm(tmp_path, STEP)
    assert arrive(tmp_path) == -signal.SIGKILL
    assert crash_points.was_hit(tmp_path, STEP)
    assert arrive(tmp_path) == 0
    assert not crash_points.was_hit(tmp_path, STEP)


def test_it_kills_whom_the_test_names(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as victim:
        crash_points.arm(tmp_path, STEP, victim.pid)
        assert arrive(tmp_path) == 0
        assert victim.wait(60) == -signal.SIGKILL


@pytest.mark.parametrize("armed", [True, False])
def test_nothing_happens_outside_a_test(tmp_path: Path, armed: bool) -> None:
    if armed:
        crash_points.arm(tmp_path, STEP)
    assert arrive(None) == 0
    assert not crash_points.was_hit(tmp_path, STEP)

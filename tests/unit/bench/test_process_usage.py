from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from penstock.bench.measurement import MeasurementError
from penstock.bench.process_usage import age_s, cpu_seconds, memory

PARENT_OF_A_BUSY_CHILD = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "held = b'x' * 60_000_000\\nprint(1, flush=True)\\nwhile True: pass"])
child.wait()
"""


def test_a_process_below_the_broker_counts() -> None:
    started_s = time.perf_counter()
    with subprocess.Popen([sys.executable, "-c", PARENT_OF_A_BUSY_CHILD], stdout=subprocess.PIPE) as parent:
        try:
            assert parent.stdout is not None
            parent.stdout.readline()
            deadline_s = time.monotonic() + 30
            before = cpu_seconds(parent.pid)
            while cpu_seconds(parent.pid) < before + 0.05:
                assert time.monotonic() < deadline_s, "the busy child's CPU time was not counted"
            used = memory(parent.pid)
            assert used.resident_bytes > 60_000_000
            assert used.unique_bytes <= used.resident_bytes
            tick_s = 1 / os.sysconf("SC_CLK_TCK")
            assert 0.05 <= age_s(parent.pid) <= time.perf_counter() - started_s + 2 * tick_s
        finally:
            for child in psutil.Process(parent.pid).children():
                child.kill()  # the parent waits for it, and ends


def test_a_broker_that_is_gone_is_a_failed_measurement() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with pytest.raises(MeasurementError, match="exited during the measurement"):
        cpu_seconds(ended.pid)

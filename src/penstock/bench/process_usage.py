"""CPU time and memory of a broker: its process and all child processes, by psutil.

A child that exits during the reading is skipped; a broker that has exited is a MeasurementError.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from penstock.bench.measurement import MeasurementError


@dataclass(frozen=True, slots=True)
class Memory:
    """`resident` counts every mapped page, including shared and cached file pages. `unique` would become free if the
    processes exited. `proportional` divides shared pages among their users; 0 if the system does not report it."""

    resident_bytes: int
    unique_bytes: int
    proportional_bytes: int


def cpu_seconds(pid: int) -> float:
    """User and system time so far, including exited children."""
    total = 0.0
    for process in _tree(pid):
        try:
            times = process.cpu_times()
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def memory(pid: int) -> Memory:
    resident = unique = proportional = 0
    for process in _tree(pid):
        try:
            info = process.memory_full_info()
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        resident += info.rss
        unique += info.uss
        proportional += getattr(info, "pss", 0)
    return Memory(resident, unique, proportional)


def idle_cpu_seconds(pid: int, duration_s: float) -> float:
    """CPU seconds that an idle broker uses during `duration_s`."""
    before = cpu_seconds(pid)
    time.sleep(duration_s)
    return cpu_seconds(pid) - before


def age_s(pid: int) -> float:
    """Seconds since the creation of the process. Linux records it in ticks of 10 ms, rounded down: the age is too large
    by at most one tick."""
    if sys.platform != "linux":
        return time.time() - psutil.Process(pid).create_time()
    # The fields after the command's name, which may contain spaces and brackets; the start time is field 22.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    started_s = int(fields[22 - 3]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_s


def _tree(pid: int) -> list[psutil.Process]:
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess as gone:
        raise MeasurementError(f"the broker (process {pid}) exited during the measurement") from gone

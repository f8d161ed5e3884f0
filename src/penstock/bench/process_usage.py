"""CPU time and memory of a broker: its process and every process below it.

Owns the reading of the system's accounts, through psutil. Figures of a process that ends while it is being read are
left out; a broker that is gone altogether is a MeasurementError.
"""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

from penstock.bench.errors import MeasurementError


@dataclass(frozen=True, slots=True)
class Memory:
    """`resident` counts every page the processes map, shared ones and cached file pages included. `unique` is what
    would become free if they ended. `proportional` splits shared pages among their users; 0 where the system does not
    tell it."""

    resident_bytes: int
    unique_bytes: int
    proportional_bytes: int


def cpu_seconds(pid: int) -> float:
    """User and system time so far, children that have ended included."""
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
    """CPU seconds spent while nobody asks for anything, for `duration_s`."""
    before = cpu_seconds(pid)
    time.sleep(duration_s)
    return cpu_seconds(pid) - before


def age_s(pid: int) -> float:
    """Seconds since the process came into being. Linux knows that to a tick of 10 ms, rounded in nobody's favour: the
    age comes out too large by a tick at most."""
    if sys.platform != "linux":
        return time.time() - psutil.Process(pid).create_time()
    # Everything after the command's name, which may hold spaces and brackets; the start time is field 22 of the whole.
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    started_s = int(fields[22 - 3]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_s


def _tree(pid: int) -> list[psutil.Process]:
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess as gone:
        raise MeasurementError(f"the broker (process {pid}) ended while it was being measured") from gone

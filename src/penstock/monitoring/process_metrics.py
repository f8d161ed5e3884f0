"""This process in the names that Prometheus' client libraries made usual: CPU time, memory, descriptors, version."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from typing import Final

from penstock.core.metrics import Metrics

_STATM: Final = Path("/proc/self/statm")
_DESCRIPTORS: Final = Path("/proc/self/fd")


def watch_process(metrics: Metrics) -> None:
    """What the system does not tell without /proc is left out."""
    from importlib.metadata import version

    build = metrics.gauge(
        "penstock_build_info", "The version of Penstock; the value is 1.", version=version("penstock")
    )
    build.value = 1
    metrics.gauge("process_start_time_seconds", "When the process started, in seconds since 1970.").value = time.time()
    metrics.counter_reader("process_cpu_seconds_total", "CPU time of the process.", lambda: [({}, time.process_time())])
    if _STATM.exists():
        metrics.gauge_reader(
            "process_resident_memory_bytes", "Memory of the process.", lambda: [({}, _resident_bytes())]
        )
        metrics.gauge_reader(
            "process_open_fds", "Open file descriptors.", lambda: [({}, len(os.listdir(_DESCRIPTORS)))]
        )
    metrics.gauge_reader(
        "process_max_fds",
        "The limit of open file descriptors.",
        lambda: [({}, resource.getrlimit(resource.RLIMIT_NOFILE)[0])],
    )


def _resident_bytes() -> int:
    return int(_STATM.read_text().split()[1]) * resource.getpagesize()

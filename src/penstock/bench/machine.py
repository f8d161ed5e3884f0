"""Describes the machine on which the figures were taken."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import confluent_kafka
import psutil


def describe() -> dict[str, str | int | float]:
    return {
        "processor": _processor(),
        "cores": os.cpu_count() or 0,
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "librdkafka": confluent_kafka.libversion()[0],
        "confluent_kafka": str(confluent_kafka.version()),
        "load_average_at_start": round(os.getloadavg()[0], 2),
    }


def raise_open_file_limit() -> None:
    """The brokers inherit this process's limit, and thousands of partitions need thousands of open files."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if sys.platform == "linux" and soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()

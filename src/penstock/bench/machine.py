"""Describes the machine on which the figures were taken."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Final

import confluent_kafka
import psutil

_SHARE_TOUCHED: Final = 0.7
_TOUCH: Final = """
import mmap, sys
size, step = int(sys.argv[1]), 1 << 24
with mmap.mmap(-1, max(step, size - size % step)) as memory:
    block = b"x" * step
    for start in range(0, len(memory), step):
        memory[start : start + step] = block
"""


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


def touch_free_memory() -> None:
    """Writes to most of the free memory once, in a process of its own.

    A virtual machine gets a page from its host when it first writes to it. Otherwise the first contestant of a new
    machine would pay for that.
    """
    size = int(psutil.virtual_memory().available * _SHARE_TOUCHED)
    subprocess.run([sys.executable, "-c", _TOUCH, str(size)], check=True)


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
